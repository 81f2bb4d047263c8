"""What holds for any bytes at all, however they are cut: the promises of the design, as checks of any input.

`check` reads one body in many ways (whole, in pieces, with and without chunks, looked at on the way, strict, with and
without limits, cut short) and holds them to each other, and each layer to those below it. A promise that is broken
raises `Broken`, which says what differs; anything else that is raised came out of a call that must not raise it.
The standard library and chunkfold are all it needs, so that a fuzzer can run it.

- `holding`: how a promise is held; `readings`: the ways of reading a body;
- `decoding`, `layers`: each layer by itself, and put together by hand;
- `endings`, `messages`, `events`: what a reading came to; `values`: errors, anomalies and messages from anywhere;
- `live_json`: JSON while it is written, which is no part of `check`.
"""

from collections.abc import Iterable

from chunkfold.testing import cut
from invariants.decoding import check_decoder, cuttings
from invariants.endings import check_cut_short, check_ended, check_limits, check_strict
from invariants.events import check_events
from invariants.holding import plain, same, shown
from invariants.layers import check_layers, check_payloads, check_refolded
from invariants.messages import check_messages
from invariants.readings import Options, curious_reading, folded_reading, watched_reading, whole_reading
from invariants.values import check_anomalies


def check(body: bytes, cuts: Iterable[int] = (), options: Options | None = None) -> None:
    """Hold a body to every promise.

    Args:
        body: Any bytes.
        cuts: Where to cut it; a number larger than the body counts from its beginning again.
        options: How to read it.

    Raises:
        Broken: A promise was not kept.
    """
    options = options or Options()
    places = sorted(place % (len(body) + 1) for place in cuts)
    check_decoder(body, places, options.max_event_size)
    check_payloads(body)
    check_parser(body, places, options)


def check_parser(body: bytes, places: list[int], options: Options) -> None:
    """All ways of reading a body come to the same, and what they come to keeps the promises."""
    whole = whole_reading(body, options)
    result, chunks, fed = whole.result, shown(whole.chunks), shown(whole.fed)
    pieces = cut(body, *places)
    told: list[str] | None = None
    for reads in cuttings(body, places):
        curious, folded = curious_reading(reads, options), folded_reading(reads, options)
        same("the result does not depend on the cuts, nor on who looks", curious.result, result)
        same("nor do the chunks", shown(curious.chunks), chunks)
        same("nor does it depend on whether there are chunks", folded.result, result)
        told = told or [plain(event) for event in curious.events]
        same("nor do the events depend on the cuts", [plain(event) for event in curious.events], told)
        same("nor do they on whether there are chunks", [plain(event) for event in folded.events], told)
        check_events(curious)
    for reads in ([body], pieces):
        late = folded_reading(reads, options, late=1 + len(reads) // 2)
        same("nor on when events are asked for", late.result, result)
        check_events(late)
    watched = watched_reading(pieces, options)
    same("nor on who is told", watched.result, result)
    same("nor do the chunks", shown(watched.chunks), chunks)
    check_ended(whole)
    check_anomalies(whole.parser.anomalies, len(body))
    check_messages(whole, body)
    check_refolded(whole)
    check_strict(body, whole, result)
    check_limits(body, whole, result)
    if options == Options():
        check_layers(body, whole)
    for place in places:
        check_cut_short(body[:place], options, fed)
