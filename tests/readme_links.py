"""Make the README's links absolute, since a package index does not have the files that they lead to.

python tests/readme_links.py README.md https://github.com/OWNER/NAME v1.2.3
"""

import re
import sys
from pathlib import Path

RELATIVE = re.compile(r"^(\[[^\]]+\]: )(?![a-z]+:|#)(\S+)$", re.MULTILINE)


def absolute(text: str, repository: str, tag: str) -> str:
    """The text with its link definitions at that tag of the repository: pictures as files, all else as pages."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match[2].endswith(".svg") else "blob"
        return f"{match[1]}{repository}/{kind}/{tag}/{match[2]}"

    return RELATIVE.sub(link, text)


if __name__ == "__main__":
    readme, repository, tag = sys.argv[1:]
    Path(readme).write_text(absolute(Path(readme).read_text("utf-8"), repository, tag), "utf-8")
