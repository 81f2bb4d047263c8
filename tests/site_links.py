"""Check the built site: every link and picture within it leads somewhere, and nothing is fetched from elsewhere.

What builds the site is not published, no signature shows a name that is private, and every class that the site's style
sheet names is on a page.

python tests/site_links.py docs/.site
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r'<(?P<tag>\w+)\b[^>]*?\b(?:href|src)="(?P<link>[^"]+)"')
LISTED = re.compile(r"^- \[.+?\]\((.+?)\)", re.MULTILINE)
ID = re.compile(r'\bid="([^"]+)"')
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
PRIVATE_DEFAULT = re.compile(r"=\s*_\w+")
SIGNATURE = re.compile(r'<div class="[^"]*doc-signature[^"]*">(.*?)</div>', re.DOTALL)
UNPUBLISHED = {".jsonl", ".py", ".toml"}
STYLED = re.compile(r"\.([a-z][\w-]*)(?=[^{}]*\{)")
NOT_ON_PAGES = {"md-typeset__table"}  # which a script adds
FETCHED = {"img", "link", "script", "iframe"}


def problems_of(site: Path) -> list[str]:
    """What is wrong, a line each."""
    pages = {page: page.read_text("utf-8") for page in site.rglob("*.html") if page.name != "404.html"}
    ids = {page: set(ID.findall(text)) for page, text in pages.items()}
    found: list[str] = []
    for page, text in pages.items():
        for match in LINK.finditer(text):
            link = match["link"]
            if ELSEWHERE.match(link):
                if match["tag"] in FETCHED and not link.startswith("data:"):
                    found.append(f"{page.relative_to(site)}: fetches {link}")
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                found.append(f"{page.relative_to(site)}: {link} leads nowhere")
            elif anchor and not anchor.startswith("__") and anchor not in ids.get(target, {anchor}):
                found.append(f"{page.relative_to(site)}: {link} has no such anchor")
    listed = LISTED.findall((site / "llms.txt").read_text("utf-8"))
    found += [f"llms.txt: {link} leads nowhere" for link in listed if not (site / link).exists()]
    found += [f"{path.relative_to(site)} is published" for path in site.rglob("*") if path.suffix in UNPUBLISHED]
    for page, text in pages.items():
        signatures = (re.sub(r"<[^>]+>", "", markup) for markup in SIGNATURE.findall(text))
        private = [match[0] for signature in signatures for match in PRIVATE_DEFAULT.finditer(signature)]
        found += [f"{page.relative_to(site)}: a signature shows {default}" for default in private]
    sheet = re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", (site / "site.css").read_text("utf-8"), flags=re.DOTALL)
    classes = {
        name for text in pages.values() for names in re.findall(r'\bclass="([^"]+)"', text) for name in names.split()
    }
    unused = set(STYLED.findall(sheet)) - classes - NOT_ON_PAGES
    found += [f"site.css: no page has the class {name}" for name in sorted(unused)]
    return found if pages else [f"{site}: no pages"]


if __name__ == "__main__":
    problems = problems_of(Path(sys.argv[1]).resolve())
    print("\n".join(problems) or "every link of the site leads somewhere")
    sys.exit(bool(problems))
