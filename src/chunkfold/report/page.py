"""The page: recordings as one self-contained HTML file, without network access and without scripts.

Everything that a provider sent goes through `tag`, which escapes it. The page's content security policy allows only its
own style.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from heapq import nlargest
from importlib.resources import files
from typing import Final

from chunkfold import APIError, ChatCompletionMessage
from chunkfold.errors import END_MEANINGS
from chunkfold.excerpts import counted
from chunkfold.models.html import Html, cut, escaped, joined, tag, word
from chunkfold.report.charts import (
    GROWING,
    axis,
    css_name,
    growth,
    histogram,
    phase_strip,
    phases,
    stall_strip,
    strip,
    token_growth,
)
from chunkfold.report.elements import cards, number, row, section, swatch, table, wide
from chunkfold.report.facts import MOST_STALLS, Kind, StreamFacts
from chunkfold.report.units import duration

_TEXT: Final = 3000  # characters shown of a text or reasoning
_SHORT: Final = 500  # of arguments, and of an error
_WORD: Final = 100  # of a name
_CALLS: Final = 20
_CHOICES: Final = 4
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(streams: Sequence[StreamFacts]) -> str:
    """Return the page of one or several recordings, as HTML.

    Raises:
        ValueError: There is no recording.
    """
    if not streams:
        raise ValueError("streams: expected at least one")
    is_one = len(streams) == 1
    title = cut(streams[0].name, _WORD) if is_one else counted(len(streams), "stream")
    heading = "Stream report" if is_one else f"Report of {counted(len(streams), 'stream')}"
    is_timed = any(facts.is_timed for facts in streams)
    note = "Times count from when the request was sent." if is_timed else "Nothing here was recorded with times."
    head = joined(
        [
            Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><link rel="icon" href="data:,">'),
            tag("title", f"{title} - chunkfold report"),
            tag("style", _style()),
        ]
    )
    body = tag(
        "body",
        tag("header", tag("h1", heading), tag("p", note, class_="soft")),
        tag(
            "main",
            *([] if is_one else [_overview(streams)]),
            *(_stream(facts, number) for number, facts in enumerate(streams, 1)),
        ),
        tag("footer", tag("p", "Made by chunkfold report.")),
    )
    return f'<!doctype html>\n<html lang="en">{tag("head", head)}{body}</html>\n'


@cache
def _style() -> Html:
    return Html(files("chunkfold.report").joinpath("style.css").read_text("utf-8"))


# Several recordings


def _overview(streams: Sequence[StreamFacts]) -> Html:
    longest = max((facts.seconds for facts in streams if facts.is_timed), default=0.0)
    rows = [
        (tag("a", tag("bdi", cut(facts.name, _WORD)), href=f"#s{number}"), _overview_cells(facts, longest))
        for number, facts in enumerate(streams, 1)
    ]
    return section("Overview", cards("Recording", rows, "cards overview"), level="h2")


def _overview_cells(facts: StreamFacts, longest: float) -> dict[str, str]:
    rate = facts.tokens_per_second
    took = [tag("div", duration(facts.seconds)), phase_strip(facts, longest)] if facts.is_timed else ["no times"]
    return {
        "End": _end(facts),
        "First output": _time(facts, facts.timing.first_output),
        "Longest gap": _time(facts, max(facts.gaps, default=None)),
        "Tokens/s": "" if rate is None else f"{rate:.1f}",
        "Chunks": f"{facts.chunks:,}",
        "Rules": ", ".join(sorted(anomaly.rule.id for anomaly in facts.anomalies)),
        "Took": tag("div", *took),
    }


# One recording


def _stream(facts: StreamFacts, number: int) -> Html:
    title = tag("div", tag("h2", tag("bdi", cut(facts.name, 300)), id=f"t{number}"), _end(facts), class_="title")
    head = tag("div", title, *_notices(facts), _tiles(facts), class_="card")
    parts = (
        section("Timeline" if facts.is_timed else "Events", *_waterfall(facts)),
        *_gaps(facts),
        *_growth(facts),
        section("Anomalies", *_anomalies(facts)),
        section("Result", *_output(facts)),
        section("The response", _response(facts)),
    )
    return tag("section", head, *parts, id=f"s{number}", aria_labelledby=f"t{number}")


def _end(facts: StreamFacts) -> Html:
    is_good = facts.end.complete
    return tag("span", f"{'✓' if is_good else '✕'} {facts.end}", class_=f"end {'good' if is_good else 'bad'}")


def _notices(facts: StreamFacts) -> Iterator[Html]:
    meaning = END_MEANINGS[facts.end]
    yield tag("p", f"{meaning[0].upper()}{meaning[1:]}.", class_="soft")
    if facts.error is not None:
        error = facts.error
        parts = [tag("strong", type(error).__name__), ": ", cut(str(error), _SHORT)]
        if isinstance(error, APIError) and error.status_code is not None:
            parts.append(f" (status {error.status_code})")
        yield tag("p", *parts, class_="notice bad")
    if not facts.is_timed:
        notice = "This body has no times: it was not recorded. So the page does not show when its events arrived."
        yield tag("p", notice, class_="notice")


def _tiles(facts: StreamFacts) -> Html:
    rate, timing = facts.tokens_per_second, facts.timing
    characters = sum(total for _, total in facts.totals().values())
    told = (
        ("First output", _time(facts, timing.first_output)),
        ("Took", _time(facts, facts.seconds)),
        ("Longest gap", _time(facts, max(facts.gaps, default=None))),
        ("Tokens per second", "" if rate is None else f"{rate:.1f}"),
        ("Chunks", f"{facts.chunks:,}"),
        ("Characters", f"{characters:,}"),
    )
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in told if value), class_="tiles")


def _waterfall(facts: StreamFacts) -> Iterator[Html]:
    totals = facts.totals()
    if not totals:
        yield tag("p", "No event arrived.")
        return
    names = ("Kind", "Events", "Characters", *(["When"] if facts.is_timed else []))
    rows = [_lane(facts, kind, *total) for kind, total in totals.items()]
    if facts.is_timed:
        rows.insert(0, _strip_row("all", phase_strip(facts, facts.seconds)))
        if facts.stalls:
            name = tag("span", swatch("k-stall"), "stalls")
            rows.append(_strip_row(name, stall_strip(facts), f"{len(facts.stalls):,}"))
        rows.append(row("", *[tag("td", role="cell")] * 2, wide(axis(facts.seconds))))
    yield table(names, rows, "lanes", Html(f"<colgroup>{'<col>' * len(names)}</colgroup>"))
    if facts.is_timed:
        items = (tag("li", swatch(name), f"{what} {duration(end - start)}") for name, what, start, end in phases(facts))
        yield tag("ul", *items, class_="legend")
    note = "An event of several kinds is shown in each."
    if Kind.OTHER in totals:
        note += " Other: roles, finish reasons, [DONE], keep-alives, and events that are not chunks."
    if facts.is_timed:
        note += " The higher a bar, the more arrived at that time."
        note += f" Of the stalls the {len(facts.stalls)} longest are shown." if len(facts.stalls) == MOST_STALLS else ""
    yield tag("p", note, class_="soft")


def _lane(facts: StreamFacts, kind: Kind, events: int, characters: int) -> Html:
    cells = [number(f"{events:,}", "events"), number(f"{characters:,}" if characters else "", "chars")]
    charts = [wide(strip(facts, kind))] if facts.is_timed else []
    return row(joined([swatch(css_name(kind)), str(kind)]), *cells, *charts)


def _strip_row(name: str, chart: Html, events: str = "") -> Html:
    return row(name, number(events, ""), number("", ""), wide(chart))


def _gaps(facts: StreamFacts) -> Iterator[Html]:
    gaps = facts.timing.gaps
    if gaps is None or not facts.gaps:
        return
    told = (
        ("gaps", f"{gaps.count:,}"),
        ("mean", duration(gaps.mean)),
        ("p50", duration(gaps.p50)),
        ("p95", duration(gaps.p95)),
        ("p99", duration(gaps.p99)),
        ("longest gap", duration(gaps.longest)),
    )
    numbers = (tag("tr", tag("th", name, scope="row"), tag("td", value, class_="num")) for name, value in told)
    parts = [tag("div", tag("div", histogram(facts.gaps, gaps)), tag("table", *numbers), class_="gaps")]
    note = "From each read that brought a chunk to the next one. Each bar begins at the time below it."
    if facts.stalls:
        stalls = nlargest(5, facts.stalls, key=lambda stall: stall.seconds)
        longest = "; ".join(f"{duration(stall.seconds)} from {duration(stall.at)}" for stall in stalls)
        note += f" Long ones: {longest}."
    yield section("Gaps between chunks", *parts, tag("p", note, class_="soft"))


def _growth(facts: StreamFacts) -> Iterator[Html]:
    if not facts.is_timed:
        return
    came = [kind for kind, (_, characters) in facts.totals().items() if kind in GROWING and characters]
    if came:
        items = (tag("li", swatch(css_name(kind)), str(kind)) for kind in came)
        legend = tag("ul", *items, class_="legend")
        stacked = tag("p", "Stacked in this order, from the bottom up.", class_="soft") if len(came) > 1 else ""
        yield section("Cumulative characters", growth(facts), legend, stacked)
    if len(facts.tokens) > 1 and any(tokens for _, tokens in facts.tokens):
        note = tag("p", "Completion tokens, as the usage reported them.", class_="soft")
        yield section("Cumulative tokens", token_growth(facts), note)


def _anomalies(facts: StreamFacts) -> Iterator[Html]:
    if not facts.anomalies:
        yield tag("p", "Nothing: no rule was broken.")
        return
    rows = [
        (tag("code", each.rule.id), {"What": each.rule.sentence, "Times": f"{each.count:,}", "First": each.first})
        for each in sorted(facts.anomalies, key=lambda each: each.rule.id)
    ]
    yield cards("Rule", rows)


def _output(facts: StreamFacts) -> Iterator[Html]:
    choices = facts.completion.choices
    if not choices:
        yield tag("p", "No choice arrived.")
    for choice in choices[:_CHOICES]:
        message = choice.message
        if len(choices) > 1:
            yield tag("h4", f"Choice {word(choice.index)}")
        if message.reasoning:
            summary = tag("summary", f"Reasoning, {counted(len(message.reasoning), 'character')}")
            yield tag("details", summary, _excerpt(message.reasoning))
        spoken = None if message.audio is None else message.audio.transcript
        for told, text in (("Text", message.content), ("Transcript", spoken), ("Refusal", message.refusal)):
            if text:
                yield tag("p", f"{told}, {counted(len(text), 'character')}", class_="soft")
                yield _excerpt(text)
        yield from _calls(message)
        yield tag("p", tag("span", "Finish reason: ", class_="soft"), tag("bdi", word(choice.finish_reason) or "none"))
    if len(choices) > _CHOICES:
        yield tag("p", f"And {len(choices) - _CHOICES:,} more choices.")


def _calls(message: ChatCompletionMessage) -> Iterator[Html]:
    calls = [(call.name, call.arguments, call.id) for call in message.tool_calls]
    if not calls and (legacy := message.function_call) is not None:  # else it is the same call, in its other form
        calls.append((legacy.name or "", legacy.arguments, None))
    if calls:
        rows = [
            (tag("bdi", word(name) or "no name"), {"Arguments": cut(arguments, _SHORT), "Id": word(id_)})
            for name, arguments, id_ in calls[:_CALLS]
        ]
        yield cards("Tool call", rows)
    if len(calls) > _CALLS:
        yield tag("p", f"And {len(calls) - _CALLS:,} more tool calls.")


def _response(facts: StreamFacts) -> Html:
    recording, timing, completion = facts.recording, facts.timing, facts.completion
    size = sum(len(read.data) for read in recording.reads)
    times = (
        ("Headers", timing.headers),
        ("First byte", timing.first_byte),
        ("First chunk", timing.first_chunk),
        ("First output", timing.first_output),
        ("Last chunk", timing.last_chunk),
        ("Last byte", timing.last_byte),
        ("End", recording.ended_at),
    )
    told = (
        ("URL", cut(facts.url, _SHORT)),
        ("Status", str(recording.status_code)),
        ("Model", word(completion.model)),
        ("Completion id", word(completion.id)),
        ("Usage", _usage(facts)),
        ("Received", f"{counted(size, 'byte')} in {counted(len(recording.reads), 'read')}"),
        ("Body", _ending(facts)),
        *((name, _time(facts, at)) for name, at in times),
        *((name, cut(value, 200)) for name, value in list(recording.headers.items())[:40]),
    )
    pairs = (
        tag("div", tag("dt", tag("bdi", word(name))), tag("dd", value, dir="auto")) for name, value in told if value
    )
    return tag("dl", *pairs, class_="facts")


def _ending(facts: StreamFacts) -> str:
    recording = facts.recording
    if recording.end == "error":
        return f"the transport raised {word(recording.error) or 'an exception'}"
    return "read to its end" if recording.end == "body" else "reading stopped early"


def _usage(facts: StreamFacts) -> str:
    usage = facts.completion.usage
    if usage is None:
        return "not reported"
    counts = (
        ("prompt", usage.prompt_tokens),
        ("cached", usage.cached_tokens),
        ("completion", usage.completion_tokens),
        ("reasoning", usage.reasoning_tokens),
        ("total", usage.total_tokens),
    )
    told = ", ".join(f"{name} {number:,}" for name, number in counts if number is not None)
    return f"{told} tokens" if told else "reported without counts"


# Pieces


def _excerpt(text: str) -> Html:
    rest = len(text) - _TEXT
    more = tag("em", f"... and {rest:,} more characters") if rest > 0 else ""
    return tag("pre", escaped(text[:_TEXT]), more, class_="text", dir="auto")


def _time(facts: StreamFacts, at: float | None) -> str:
    return duration(at) if facts.is_timed and at is not None else ""
