"""Pages, docstrings, comments, messages and help texts use plain technical English.

`PHRASES` lists turns of phrase that a reader stumbles over, each with what to write instead. A phrase is a regular
expression in lower case, matched in prose only and across line ends: not in code blocks, code spans, link targets or
identifiers.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cases import each_case

ROOT = Path(__file__).parents[2]

START = r"(?:^|(?<=[.!?:] ))"  # of a sentence
VERB = r"(?:comes?|came|stands?|stood|lies|belongs?|goes)"

PHRASES = {
    # Homely words for things that have a technical name
    r"let be\b": "ignored, left unchanged",
    r"of (no )?use( (without|to|for|here|there|where|when|if|alone)\b|[.,;:)]|$)": "useful, can be used",
    r"(is|are|was|were|be) told(?! to\b)": "is reported, is recognised",
    r"told (by|apart|from|in|what|which|where)\b": "recognised by, distinguished",
    r"tells? (that|apart|from|of)\b": "reports that, distinguishes, mentions",
    r"(comes?|came|coming|becomes|became) of\b": "name the result",
    r"what there (is|was)\b": "name it",
    r"(where|how) (it|they|each|one) stands?\b": "the offset, the place, the state",
    r"beg(in|ins|an|un) again\b": "starts over",
    r"behind (it|them|that|this|each|every|another|one|the (loop|last|first|answer|finish|end|text|blank))\b": "after",
    r"at last\b": "finally",
    r"such (a one|an one|one|ones)\b": "such a stream, such a file",
    r"who(ever)? never\b": "if you do not",
    r"for those who\b": "if you",
    r"nothing of (the|it|what|them|this|that)\b": "without, none of",
    r"(is|are|to be) had\b": "is available",
    r"what of\b": "name it",
    r"so (many|much|long) (seconds|bytes|events|characters|of)\b(?! \w+ that\b)": "the number",
    r"(says?|said|saying|say) so\b": "name what is reported",
    r"not\b[^.;:]{0,60}\bany more\b": "no longer",
    r"for ever\b": "forever",
    r"(its|their) kin\b": "similar clients",
    r"(is|are|was|were|be) (not |never |only )?looked at\b": "is checked, is inspected",
    r"(which|that|it|this|these|they|body|answer|value) (is|are|was|were) no "
    r"(?!longer|more|less|different|better|worse|bigger|larger|such|way|need)": "is not a",
    r"(?<!there )(is|are|was|were) no (json|chunks?|objects?|strings?|lists?|events?|event stream|stream|numbers?|error|base64)\b": "is not a",
    r"with neither\b": "without either: name both",
    r"makes? nothing of\b": "ignores",
    r"not a word of\b": "nothing about",
    r"a word on\b": "about",
    r"passes for\b": "is taken for",
    r"wants? (no|a) (test|reason|word|look)\b": "needs",
    r"what (is|was) left of\b": "the rest of; name it",
    r"may well\b": "can, is likely to",
    r"as a rule\b": "usually",
    r"whoever\b": "the caller, any provider",
    r"(somebody|nobody)\b": "name the person or the code",
    r"(hand|hands|handed) out\b": "yield, return",
    r"stands\b(?! (for|by)\b)": "is",
    r"what (\S+ ){1,3}makes? of\b": "the result of",
    r"comes? to (something|nothing|the same)\b": "the result is, equals",
    r"puts? together\b": "assemble",
    r"(gets?|got|lay|lays|laid) hold of\b": "get",
    r"of (its|their) own accord\b": "by itself",
    r"(on|in) (a )?bad days?\b": "when it fails",
    r"(wherein|whence|thence|thereof|therein|thus|hence|lest|albeit|whilst|amid|oft|ere)\b": "a plain word",
    r"(stand|stood|standing)\b(?! for\b)": "is",
    r"what (has |had |have )?(came|comes?)\b(?! (after|before|next)\b)": "name it",
    r"(has|had|have|having) (not )?(yet )?come\b": "has arrived",
    r"(go|goes|went|going|gone) on\b": "continues",
    r"(?<!\{)told\b(?!\})": "said, reported",
    r"(says?|said|saying) of\b": "says about",
    r"mere(ly)?\b": "only",
    r"now and then\b": "occasionally",
    r"anew\b": "again",
    r"all the same\b": "nevertheless",
    r"the like\b": "similar",
    r"blam(e|es|ed|ing)\b": "report as the fault of",
    r"as far as (it|they) (has|have|had|goes|go)\b": "so far",
    # Inverted openings
    START + r"who \w+s\b(?! (this|it)\b)[^?]*$": "If you ...",
    START + r"behind (it|them|the|that|each|this)\b": "After ...",
    START + r"of (such|what|each|it|them|these|those|all|a|an|the)\b((?! (that|which)\b)[^.,:;]){0,60}"
    r" (is|are|was|comes?|stays?|remains?|has|have|counts?|(the|a) \w+ says?)\b": "the subject first",
    START
    + r"(in|at|on|to|from|by|with|below|above|beside|before|after|under) ([^\s.,:;]+ ){1,4}"
    + VERB
    + r" (the|a|an|what|one|its|all|those|these)\b": "the subject first",
    START + r"(here|there|then|thus|so) " + VERB + r" (the|a|an|what|one|its)\b": "the subject first",
    START + r"(not|nor|never) (\w+ )?(is|are|does|do|has|have|was|were) ": "the subject first",
}


PATTERNS = {re.compile(rf"(?<![\w-]){phrase}"): instead for phrase, instead in PHRASES.items()}
ANY = re.compile(rf"(?<![\w-])(?:{'|'.join(PHRASES)})")  # one search instead of sixty


class Passage(NamedTuple):
    """A paragraph, list item, table cell, comment or string, on one line."""

    line: int  # its first
    text: str  # code spans as "`code`"


def passage(line: int, text: str) -> Passage:
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "`code`", text, flags=re.DOTALL)
    return Passage(line, " ".join(re.sub(r"\]\([^)\s]*\)", "]", text).split()))


def passages_of_text(text: str, line: int = 1) -> Iterator[Passage]:
    """Paragraphs; list items, headings and cells of tables are paragraphs too."""
    text = re.sub(
        r"^( *)(```|~~~).*?^\1\2$", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    start = 0
    for end in re.finditer(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.) ?)|(?<!\\)\||$(?!\n)", text):
        if words := text[start : end.start()].strip(" \n#|*->"):
            yield passage(line + text.count("\n", 0, start + len(text[start:]) - len(text[start:].lstrip())), words)
        start = end.end()


# `tokenize` takes five times as long.
PROSE = re.compile(
    r"""(?m:^[ \t]*#.*(?:\n[ \t]*#.*)*)|#.*|(?P<quotes>\"{3}|'{3}|["'])(?P<string>(?:\\[\s\S]|[^\\])*?)(?P=quotes)"""
)


def passages_of_module(source: str) -> Iterator[Passage]:
    """Comments, of which those on lines that follow each other are one passage, and strings."""
    for found in PROSE.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        if found["quotes"]:
            yield from passages_of_text(found["string"], line)
        else:
            yield passage(line, re.sub(r"\n[ \t]*#", " ", found[0]).strip(" #"))


def checked_files() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "docs" / "llms.txt"]
    modules = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    return sorted([*pages, *modules])


def phrases_in(path: Path) -> list[str]:
    source = path.read_text("utf-8")
    passages = passages_of_module(source) if path.suffix == ".py" else passages_of_text(source)
    return [
        f"{path.relative_to(ROOT)}:{line}: {found[0]!r} (instead: {instead}) in: {text}"
        for line, text in passages
        if ANY.search(text.lower())
        for pattern, instead in PATTERNS.items()
        for found in pattern.finditer(text.lower())
    ]


@each_case("path", checked_files(), ids=str)
def test_the_words_are_plain(path: Path) -> None:
    assert phrases_in(path) == []


@each_case(
    "text",
    [
        "Unknown keys are let be.",
        "The kit is of use without the rest.",
        "A fork is told\nby its bytes.",
        "Who never asks pays nothing.",
        "Behind the last one they begin again.",
        "Of such a file the page says its size.",
        "In the message stands what was expected.",
        "This is no event stream.",
    ],
)
def test_a_phrase_is_found(text: str) -> None:
    (found,) = passages_of_text(text)
    assert ANY.search(found.text.lower())


def test_code_is_not_prose() -> None:
    assert [each.text for each in passages_of_text("a `let be` b\n\n```python\nlet be\n```\n\n- [c](told-by.md)")] == [
        "a `code` b",
        "[c]",
    ]
    assert [each.text for each in passages_of_module("told = by\n# one\n# two\nx = 'three'\n")] == ["one two", "three"]
