"""Fuzz the sans-IO core, guided by what each input reaches in it.

    uv run --isolated --no-default-groups --group fuzz python tests/fuzz                   # 600 s, all targets in turn
    uv run --isolated --no-default-groups --group fuzz python tests/fuzz --seconds 10      # whether it works
    uv run python tests/fuzz --target parser --replay FILE                                 # anywhere, without the fuzzer

The targets are decoder, payload, parser, accumulator and json (JSON that is still being written). What must hold is in
`tests/helpers/invariants`. An input that breaks a promise is kept as a file, the command that replays it is printed, and the
exit code is 1. What was found becomes a test in `tests/promises/test_fuzz.py`.

With `--corpus` the inputs that reached something new are kept too, so that the next run begins with them.
Fuzzing needs atheris, which has wheels for Linux only. Without it this says so, and the exit code is 2.
"""

import argparse
import importlib
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

# In place of this folder: it is the package `fuzz`, and the helpers stand beside it.
TESTS = Path(__file__).parents[1]
sys.path[:1] = [str(TESTS), str(TESTS / "helpers")]

NAMES = ("decoder", "payload", "parser", "accumulator", "json")
LONGEST_INPUT = 4096  # bytes
SLOW = 5  # seconds for one input, from which on it is told
STUCK = 60  # seconds for one input, from which on it counts as found


def main() -> int:
    options = _options()
    if options.replay is not None:
        return _replay(options.target[0], options.replay)
    if find_spec("atheris") is None:
        print("nothing was fuzzed: needs atheris (group `fuzz`), which has wheels for Linux only", file=sys.stderr)
        return 2
    if options.in_this_process:
        _fuzz(options.target[0], options.seconds, options.seed, options.corpus)
    folder = options.corpus or Path(tempfile.mkdtemp(prefix="chunkfold-fuzz-"))
    names = options.target or NAMES
    failed = [name for name in names if _run(name, options.seconds / len(names), options.seed, folder / name)]
    print(f"fuzzed {', '.join(names)}: " + (f"found something in {', '.join(failed)}" if failed else "nothing found"))
    if options.corpus is None and not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    description, _, epilog = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        "tests/fuzz", description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="for all targets together (600)")
    parser.add_argument("--target", nargs="+", choices=NAMES, default=[], help="only these")
    parser.add_argument(
        "--seed", type=int, default=0, help="begin with the same inputs; 0 for others each time (default)"
    )
    parser.add_argument("--corpus", type=Path, help="the folder in which inputs are kept from run to run")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="one input through one target, and nothing else")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)  # one target
    options = parser.parse_args()
    if options.replay is not None and len(options.target) != 1:
        parser.error("--replay wants one --target")
    return options


def _replay(name: str, path: Path) -> int:
    from fuzz.targets import TARGETS
    from short_inputs import short_runs

    with short_runs():
        TARGETS[name](path.read_bytes())
    print(f"{path}: every promise is kept")
    return 0


def _run(name: str, seconds: float, seed: int, folder: Path) -> bool:
    """Fuzz one target, in a process of its own, for the fuzzer ends its process; return whether it found something."""
    findings = folder / "found"
    findings.mkdir(parents=True, exist_ok=True)
    began = time.time() - 1
    print(f"{name}: {seconds:.0f} s", flush=True)
    arguments = [
        "--in-this-process",
        "--target",
        name,
        "--seconds",
        str(seconds),
        "--seed",
        str(seed),
        "--corpus",
        folder,
    ]
    done = subprocess.run([sys.executable, __file__, *arguments], check=False)
    for path in sorted(findings.iterdir()):
        if path.stat().st_mtime >= began:
            print(f"{name}: {path}\n    uv run python tests/fuzz --target {name} --replay {path}", flush=True)
    return done.returncode != 0


def _fuzz(name: str, seconds: float, seed: int, folder: Path) -> None:
    """Never returns."""
    import atheris

    with atheris.instrument_imports(include=["chunkfold"]):
        import chunkfold
        import chunkfold.models

        for package in (chunkfold, chunkfold.models):
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                if not module.ispkg:  # what is one stands beside the core
                    importlib.import_module(module.name)
        for public in chunkfold.__all__:
            getattr(chunkfold, public)  # which loads the packages
    # The helpers only now: what they import of chunkfold is watched already.
    from fuzz.seeds import dictionary, seeds_of
    from fuzz.targets import TARGETS
    from short_inputs import short_runs

    corpus, seeds, words = folder / "corpus", folder / "seeds", folder / "words"
    corpus.mkdir(exist_ok=True)
    seeds.mkdir(exist_ok=True)
    for number, given in enumerate(given for given in seeds_of(name) if len(given) <= LONGEST_INPUT):
        (seeds / str(number)).write_bytes(given)
    words.write_text(dictionary(), "ascii")
    settings = {
        "artifact_prefix": f"{folder / 'found'}/",
        "dict": words,
        "max_len": LONGEST_INPUT,
        "max_total_time": max(1, round(seconds)),
        "print_final_stats": 1,
        "report_slow_units": SLOW,
        "seed": seed,
        "timeout": STUCK,
        "verbosity": 0,
    }
    flags = [f"-{key}={value}" for key, value in settings.items()]
    atheris.Setup(["fuzz", *flags, str(corpus), str(seeds)], TARGETS[name])
    with short_runs():
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
