"""Code that runs in an interpreter of its own."""

import subprocess
import sys


def printed_by(script: str) -> str:
    """What a script prints."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def loaded_by(code: str, *, after: str = "") -> set[str]:
    """The modules that statements load, beside those that are loaded by the ones before."""
    script = f"import sys; {after}\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    return set(printed_by(script).split())
