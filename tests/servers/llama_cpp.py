"""llama.cpp's server, which xllamacpp brings as a library: python llama_cpp.py MODEL PORT KEY CONTEXT."""

import signal
import sys

import xllamacpp

model, port, key, context = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.port = int(port)
params.api_keys = [key]
params.n_parallel = 4
params.n_ctx = int(context) * params.n_parallel
params.endpoint_metrics = True
params.warmup = False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)  # it answers from here on, on threads of its own
signal.pause()
