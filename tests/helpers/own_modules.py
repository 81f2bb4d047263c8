"""The modules of the library."""

from pathlib import Path

import chunkfold

PACKAGE = Path(chunkfold.__file__).parent


# They import the core and are below no layer, so never imported by it.
BESIDE = {"archive", "testing", "cli", "otel", "recording", "report"}


def module_name(path: Path) -> str:
    """Like "models.chunk"; the package itself is "chunkfold"."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "chunkfold"


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
CORE = {name: path for name, path in MODULES.items() if name.partition(".")[0] not in BESIDE}
