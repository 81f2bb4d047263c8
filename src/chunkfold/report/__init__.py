"""Recordings as pictures: a page of HTML that needs nothing else, a trace for Perfetto, an SVG that moves.

    facts = facts_of(Recording.load("answer.jsonl"), "answer.jsonl")
    Path("report.html").write_text(page([facts]), "utf-8")
    Path("trace.json").write_text(json.dumps(trace([facts])), "utf-8")
    Path("answer.svg").write_text(motion([Recording.load("answer.jsonl")]), "utf-8")

`facts` has the facts about a stream, as values. `page` and `charts` draw it, `trace` writes it down
for tools, `motion` plays it. The
standard library only, beside the core: nothing in it imports this.
"""

from chunkfold.report.facts import Kind, Mark, Stall, StreamFacts, facts_of
from chunkfold.report.motion import motion
from chunkfold.report.page import page
from chunkfold.report.trace import trace

__all__ = ["Kind", "Mark", "Stall", "StreamFacts", "facts_of", "motion", "page", "trace"]
