"""Recordings as pictures: a self-contained HTML page, a trace for Perfetto, an animated SVG.

    facts = facts_of(Recording.load("answer.jsonl"), "answer.jsonl")
    Path("report.html").write_text(page([facts]), "utf-8")
    Path("trace.json").write_text(json.dumps(trace([facts])), "utf-8")
    Path("answer.svg").write_text(motion([Recording.load("answer.jsonl")]), "utf-8")

`facts` has the facts about a stream, as values. `page` draws it with `charts`, `elements` of HTML and the numbers of
`units`; `trace` writes it for tools, `motion` animates it. It needs only the standard library, `recording` and the
core, which never imports it.
"""

from chunkfold.report.facts import Kind, Mark, Stall, StreamFacts, facts_of
from chunkfold.report.motion import motion
from chunkfold.report.page import page
from chunkfold.report.trace import trace

__all__ = ["Kind", "Mark", "Stall", "StreamFacts", "facts_of", "motion", "page", "trace"]
