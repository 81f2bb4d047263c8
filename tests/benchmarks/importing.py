"""Import: `from chunkfold import connect` beside `import pydantic` and a first model, each in a fresh process.

Each process says how much of the processor the import took, without the start of the interpreter, which would hide the
difference; the whole process is the second row. What chunkfold adds is mostly the building of its models.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import NamedTuple

from measuring import Figure, Scale, at_most, say

TABLE = "import"
_OURS = "from chunkfold import connect"
_PYDANTIC = """\
import pydantic
class Model(pydantic.BaseModel):
    text: str"""
_CODE = "from time import process_time\nstart = process_time()\n{}\nprint(process_time() - start, process_time())"
_TARGET = at_most(1.2)


class Cost(NamedTuple):
    """Seconds of the processor: what an import took, and the process as a whole so far."""

    itself: float
    process: float


def measure(scale: Scale) -> Iterator[Figure]:
    say("import")
    ours: list[Cost] = []
    others: list[Cost] = []
    with TemporaryDirectory() as cache:
        for code in (_OURS, _PYDANTIC):
            _run(code, cache)  # compiles what is not compiled yet
        for _ in range(3 if scale.is_quick else 21):
            ours.append(_run(_OURS, cache))
            others.append(_run(_PYDANTIC, cache))
    yield Figure(TABLE, ("the import itself",), "times `import pydantic`", _ratio(ours, others, 0), _TARGET)
    yield Figure(TABLE, ("the whole process",), "times `import pydantic`", _ratio(ours, others, 1))


def _run(code: str, cache: str) -> Cost:
    """Import in a process that finds everything compiled, whatever this environment says about that."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _CODE.format(code)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return Cost(*map(float, done.stdout.split()))


def _ratio(ours: list[Cost], others: list[Cost], place: int) -> float:
    return min(cost[place] for cost in ours) / min(cost[place] for cost in others)
