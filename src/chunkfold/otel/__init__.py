"""Telemetry: a span and metrics for each request, by OpenTelemetry's conventions for generative AI.

    from chunkfold.otel import instrument

    with instrument(chunkfold.connect(client, "POST", url, json=body), body) as stream:
        ...  # read it as before

`instrument` needs the extra `otel`, which brings opentelemetry-api; without it, importing it raises an `ImportError`
that names the extra. For other telemetry, `observe` of a stream calls plain callables and needs no extra. No module
of the core imports this one.

Read `tracing`, the public function; `measuring`, which measures one request; then what is recorded: `attributes`,
`content`, `instruments`, and `names`, with every name of the conventions.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chunkfold.otel.tracing import instrument

__all__ = ["instrument"]


def __getattr__(name: str) -> object:
    if name != "instrument":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from chunkfold.otel.tracing import instrument
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        msg = 'chunkfold.otel.instrument needs opentelemetry-api: pip install "chunkfold[otel]"'
        raise ImportError(msg, name=error.name) from error
    return instrument
