"""Merge one message that is spread over several choices into choice 0, if one choice was requested."""

from itertools import filterfalse

from chunkfold import anomalies
from chunkfold.fold.stream_fold import StreamFold, brings_output
from chunkfold.models.chunk import ChatCompletionChunk, ChunkChoice
from chunkfold.models.content import brings_tool_message, fields_of, reasoning_in, text_of
from chunkfold.models.outcome import outcome_of


class ChoiceMerger:
    """Merge the choices of one stream. Chunks with only choice 0 are unchanged.

    Unlike the transform `OneChoice` it passes a finish reason on at once. If another choice continues after it, the
    finish reason is removed from the fold: an answer that is cut there is not finished. If two choices bring text,
    reasoning or a whole message in one chunk, they are two answers, and from then on the choices are not merged.
    """

    def __init__(self, fold: StreamFold) -> None:
        self._fold = fold
        self._are_apart = False
        self._finished: int | None = None  # the index, as sent, of the choice whose finish reason came last

    def merge(self, chunk: ChatCompletionChunk) -> None:
        """Make all choices of a chunk choice 0; it must not have been returned or folded yet, because it is changed."""
        choices = chunk.choices
        self._are_apart = self._are_apart or _are_several_answers(choices)
        if self._are_apart:
            return
        finished: ChunkChoice | None = None
        for choice in choices:
            index, is_of_answer = choice.index, not brings_tool_message(choice)
            is_finished = is_of_answer and outcome_of(choice.finish_reason) is not None
            if index:
                self._fold.log.note(anomalies.CHOICE_INDEX_WANDERS, "index {}", index)
                vars(choice)["index"] = 0  # not by attribute: an index that was not sent does not count as sent
            if self._finished not in (None, index) and (is_finished or (is_of_answer and brings_output(choice))):
                if (state := self._fold.states.get(0)) is not None:
                    state.finish_reason = None
                if finished is not None:
                    finished.finish_reason = None
            if is_finished:
                self._finished, finished = index, choice


def _are_several_answers(choices: list[ChunkChoice]) -> bool:
    """Whether two choices bring the same kind of text, or both a whole message; a tool's message does not count."""
    if len(choices) < 2:
        return False
    first: dict[str, int] = {}
    for choice in filterfalse(brings_tool_message, choices):
        fields = fields_of(choice.delta)
        brought = {"text": text_of(fields.get("content")), "reasoning": reasoning_in(fields), "message": choice.message}
        if any(value and first.setdefault(kind, choice.index) != choice.index for kind, value in brought.items()):
            return True
    return False
