"""Fold the chunks of a stream: the fields of the whole completion, and which choice a delta continues.

Most deltas carry one field: the fold checks the common one first and leaves the others to the table in `deltas`.
Choices are kept by their index, which is a key and never a position.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from chunkfold import anomalies
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.fold.choice_state import ChoiceState, FoldObserver, notify_finish, replay
from chunkfold.fold.deltas import TEXT_RULES, brought_fields, fold_delta, fold_logprobs, fold_tool_calls
from chunkfold.fold.footprint import Footprint, Kept
from chunkfold.fold.head import Head, head_values
from chunkfold.fold.merging import EXTENDED_IN_CHOICE, keep_unknown, merge_usage, nested_usage
from chunkfold.fold.snapshot import choice_snapshot, gap_in, role_of
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.values import copied
from chunkfold.models.base import validate_leniently, with_unknown
from chunkfold.models.chunk import ChatCompletionChunk, ChoiceDelta, ChunkChoice, chunks_with, is_unexplained
from chunkfold.models.completion import ChatCompletion
from chunkfold.models.content import (
    CLOSING_THOUGHT_TAG,
    DRAFT,
    brings_tool_message,
    fields_of,
    is_of_tool,
    says_something,
    text_in,
)
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.models.shared import CompletionUsage
from chunkfold.models.tool_calls import ToolTypes, checked_types, give_types

_FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
_COMPACTION: Final = 1024  # chunks
_USUAL_CHOICE: Final = frozenset({"index", "delta"})
# Unknown keys that mean something.
_UNUSUAL_KEYS: Final = frozenset(
    {"error", "base_resp", "usage", "x_groq", "modality", "diffusion_meta", "reasoning_summary"}
)
ValueT = TypeVar("ValueT")


class StreamFold:
    """Fold the chunks of one stream; see `ChatCompletionAccumulator`."""

    def __init__(self, log: AnomalyLog | None = None, tools: ToolTypes | None = None) -> None:
        self.log = AnomalyLog() if log is None else log
        self.tools: ToolTypes = {} if tools is None else checked_types(tools)
        self.head = Head(self.log)  # the fields that all chunks repeat
        self.output_size = 0  # characters
        self.chunks = 0
        self.unexplained = 0  # of the chunks: objects without any field of a chunk (CF219)
        # Whether the last chunk that was folded in full is the parser's template, so that of more chunks like it only
        # the new values need to be folded. Set by the parser, and reset here.
        self.follows_template = False
        self._next_compaction = _COMPACTION
        self._usage: dict[str, Any] | None = None
        self.extra: dict[str, Any] = {}  # unknown fields
        self.states: dict[int, ChoiceState] = {}  # of the choices, by their indexes
        self._open_thoughts: set[int] = set()  # choices whose last content was flagged as a thought
        self._ended = False
        self.observer: FoldObserver | None = None
        self._footprint = Footprint()
        self._last_snapshots: list[ChatCompletion] = []

    @property
    def has_output(self) -> bool:
        """Whether any output came: text, reasoning, refusal, a tool call's name or arguments, audio, image."""
        return self.output_size > 0

    def measure(self, *others: object) -> int:
        """Roughly how many bytes are kept, here and in other states: the output, and all that arrived with it."""
        return self._footprint.of([self, *others])

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        replaced = (self.extra, {"usage": self._usage})
        return Kept((self.head.fields,), (self.states,), replaced, settled=self.states.values())

    @property
    def all_finished(self) -> bool:
        """Whether at least one choice was seen, and every one has its finish reason."""
        states = self.all_states()
        return bool(states) and all(state.finish_reason is not None for state in states)

    def all_states(self) -> list[ChoiceState]:
        """Those of all choices so far, in a list: when one thread ends the stream, another may still add a choice."""
        return [*self.states.values()]

    def add(self, chunk: ChatCompletionChunk) -> ChatCompletionChunk:
        """Fold one chunk in; return the chunk to pass on, see `ChatCompletionAccumulator.add`."""
        return chunk if self.add_if_usual(chunk) else self.add_unusual(chunk)

    def add_if_usual(self, chunk: ChatCompletionChunk) -> bool:
        """Fold a usual chunk, at half the cost of `add_unusual`; return False, without folding it, if it is not one.

        A usual chunk has the same head as the one before, one choice, which is open, and no error: it differs only in
        its text, its tool call fragment or its usage. This is the only list of these conditions.
        """
        fields, unknown, head = chunk.__dict__, chunk.__pydantic_extra__, self.head
        try:
            choices = fields["choices"]
            if (
                head_values(fields) != head.usual
                or (fields["created"] and 1) != head.created
                or len(choices) != 1
                or (unknown and not _UNUSUAL_KEYS.isdisjoint(unknown))
            ):
                return False
            choice = choices[0]
            fields, unknown = choice.__dict__, choice.__pydantic_extra__
            state = self.states.get(fields["index"])
            if (
                state is None
                or state.finish_reason is not None
                or fields["finish_reason"] is not None
                or fields["logprobs"] is not None
                or fields["message"] is not None
                or (unknown and not _UNUSUAL_KEYS.isdisjoint(unknown))
                or not choice.__pydantic_fields_set__ >= _USUAL_CHOICE
                or ((unknown := fields["delta"].__pydantic_extra__) and "error" in unknown)
            ):
                return False
        except KeyError:  # a value of a wrong type is elsewhere
            return False
        self.chunks += 1
        self.follows_template = False
        state.measured = 0
        if head.notes:
            self.log.note_all(head.notes)
        self.output_size += self.add_usual(state, chunk)
        return True

    def add_again(
        self, state: ChoiceState, head: object, rule: Callable[[ChoiceState, ValueT], int], value: ValueT, count: int
    ) -> bool:
        """Fold the value of `count` chunks that are usual because one like them was, without inspecting them again.

        `head` is the usual head of that one; `rule` folds the value, and returns how many characters of output it has.
        Returns False, without folding it, if the choice is not open, or another head has arrived since.
        """
        if state.finish_reason is not None or head is not self.head.usual:
            return False
        self.chunks += count
        state.measured = 0
        if self.head.notes:
            self.log.note_all(self.head.notes * count)
        self.output_size += rule(state, value)
        return True

    def update_usage(self, counts: dict[str, int]) -> None:
        """Fold usage that differs from the last one at most in these counts, all of them positive."""
        known, self._usage = self._usage, {**(self._usage or {}), **counts}
        if self.observer is not None and self._usage != known:
            self.observer.on_usage(self._usage)

    def add_usual(self, state: ChoiceState, chunk: ChatCompletionChunk) -> int:
        """Fold all of a usual chunk but its head; return how many characters of output it brought.

        Applying the one rule of a delta that has one field saves a twentieth of folding it by `fold_delta`.
        """
        fields, unknown = chunk.__dict__, chunk.__pydantic_extra__
        choice, usage = fields["choices"][0], fields["usage"]
        delta, unknown_of_choice = choice.__dict__["delta"], choice.__pydantic_extra__
        if unknown:
            keep_unknown(self.extra, unknown)
        fields, present = delta.__dict__, delta.__pydantic_fields_set__
        if len(present) == 1:
            [name] = present
        else:
            brought = () if delta.__pydantic_extra__ else brought_fields(delta, state)
            name = brought[0] if len(brought) == 1 else ""
        value = fields.get(name)
        if type(value) is str and name in TEXT_RULES:
            size = TEXT_RULES[name](state, value)
        elif name == "tool_calls" and (fragments := fields.get(name)):
            size = fold_tool_calls(state, fragments)
        else:
            size = self._add_delta(state, delta)
        if unknown_of_choice:
            keep_unknown(state.extra, unknown_of_choice, EXTENDED_IN_CHOICE)
        if usage is not None:
            self._add_usage(usage)
        return size

    def add_unusual(self, chunk: ChatCompletionChunk) -> ChatCompletionChunk:
        """Fold a chunk field by field; return the chunk to pass on, see `add`."""
        self.chunks += 1
        self.follows_template = False
        has_choices = "choices" in chunk.__pydantic_fields_set__
        if not has_choices and is_unexplained(chunk):
            self._add_unexplained(chunk)
            return chunk
        if self._open_thoughts:
            chunk = self._close_thoughts(chunk)
        # Not by attribute, which may be a value of a wrong type: see `Model`.
        fields, unknown = vars(chunk), chunk.__pydantic_extra__
        if not chunk.choices and unknown and "prompt_filter_results" in unknown:  # Azure's first chunk
            self.head.add_partial(fields)
        else:
            self.head.add(fields, is_usual=not self._open_thoughts)
        if unknown:
            keep_unknown(self.extra, unknown)
        for choice in chunk.choices:
            self._add_choice(choice)
            unknown = unknown or choice.__pydantic_extra__
        if not has_choices:
            self.log.note(anomalies.CHOICES_MISSING)
        usage = fields.get("usage")
        if unknown and (usage is None or not usage.__pydantic_fields_set__):
            usage = nested_usage(chunk, self.log) or usage
        if usage is not None:
            self._add_usage(usage)
        return chunk

    def _add_unexplained(self, chunk: ChatCompletionChunk) -> None:
        """Keep what an object without any field of a chunk has; it was noted as a whole, where its event was read."""
        self.unexplained += 1
        keep_unknown(self.extra, chunk.__pydantic_extra__)
        usage = vars(chunk).get("usage")
        if self.states and usage is not None:  # Workers AI ends its chunks with an object of its other API
            self._add_usage(usage)

    def calls_of(self, choice: int) -> ToolCalls:
        """A copy of a choice's calls without their arguments, to route fragments before they are folded."""
        state = self.states.get(choice)
        calls = ToolCalls(choice) if state is None or state.tool_calls is None else state.tool_calls
        return calls.without_texts()

    def compact(self) -> None:
        """Join the pieces of all texts, if many came since the last time; else nothing happens."""
        if self.chunks >= self._next_compaction:
            visited = self._footprint.visited
            self.measure()
            # The more is kept, the less often: the cost stays linear.
            self._next_compaction = self.chunks + max(_COMPACTION, self._footprint.visited - visited)

    def observe(self, observer: FoldObserver) -> None:
        """Notify an observer of everything so far, and from now on of each change."""
        self.observer = observer
        for state in self.states.values():
            state.observer = observer
            replay(state, observer)
        if self._usage is not None:
            observer.on_usage(self._usage)

    def finish(self, held: Iterable[ChatCompletionChunk] = ()) -> list[ChatCompletionChunk]:
        """The stream ended: what whole messages add to the deltas, as one chunk (already folded); none if nothing.

        The chunks that chunkfold, not the provider, held back until now are folded first.
        """
        self._ended = True
        for chunk in held:
            self.add(chunk)
        gaps = [ChunkChoice(index=state.index, delta=delta) for state in self.all_states() if (delta := gap_in(state))]
        for choice in gaps:
            self.output_size += self._add_delta(self.states[choice.index], choice.delta)
        added = chunks_with(gaps)
        self.chunks += len(added)
        for state in self.all_states():
            state.measured = 0
            if state.tool_calls is not None:
                state.tool_calls.finish()
            state.role = role_of(state)
            state.message = None
        self._note_missing()
        return added

    def _note_missing(self) -> None:
        """Note the fields of the head, and the calls that a finish reason names, if the stream did not bring them."""
        missing = [name for name in ("id", "created", "model") if name not in self.head.fields]
        if missing and self.chunks > self.unexplained:
            self.log.note(anomalies.HEAD_MISSING, ", ".join(missing))
        if any(state.tool_calls is not None or state.function_call is not None for state in self.all_states()):
            return  # If not in this choice, then in another one (GitHub Copilot).
        for state in self.all_states():
            if outcome_of(state.finish_reason) is Outcome.TOOL_CALLS:
                self.log.note(anomalies.CALLS_MISSING, "choice {}: {}", state.index, state.finish_reason)

    @property
    def snapshot(self) -> ChatCompletion:
        """What has arrived so far, in time proportional to the output; it shares nothing with the fold."""
        choices = [choice_snapshot(self.states[index]) for index in sorted(self.states)]
        # With the `object`, so that a dump without unset fields is still a completion.
        fields = {"object": "chat.completion", **self.head.fields, "choices": choices}
        if self._usage is not None:
            fields["usage"] = copied(self._usage)
        completion = validate_leniently(ChatCompletion, with_unknown(self.extra, fields))[0]
        if self.tools:
            for choice in completion.choices:
                give_types(choice.message.tool_calls, self.tools)
        return completion

    def last_snapshot(self) -> ChatCompletion:
        """The one snapshot of a stream that ended, made when it is first needed: it may be large."""
        if not self._last_snapshots:
            self._last_snapshots.append(self.snapshot)
        return self._last_snapshots[0]  # of two threads that make one, the first sets it

    def _add_usage(self, usage: CompletionUsage) -> None:
        known = self._usage
        self._usage = merge_usage(known or {}, usage, self.log)
        if self.observer is not None and self._usage != known:
            self.observer.on_usage(self._usage)

    def _add_choice(self, choice: ChunkChoice) -> None:
        index = choice.index
        state = self.states.get(index)
        if state is None:
            state = self.states[index] = ChoiceState(index, self.log, self.head.fields, self.observer)
        state.measured = 0
        present = choice.__pydantic_fields_set__
        if "index" not in present:
            self.log.note(anomalies.INDEX_MISSING)
        fields = choice.__dict__
        logprobs, message = fields.get("logprobs"), fields.get("message")
        if "delta" in present:
            state.is_late = state.finish_reason is not None and not self._ended
            size = self._add_delta(state, choice.delta)
            self.output_size += size
            if size and state.is_late:
                self.log.note(anomalies.OUTPUT_AFTER_FINISH, "choice {}", index)
        elif message is None:
            self.log.note(anomalies.DELTA_MISSING, "choice {}", index)
        if logprobs is not None:
            fold_logprobs(state, logprobs)
        if message is not None:
            self._add_message(state, message)
        if choice.finish_reason is not None and not brings_tool_message(choice):
            self._finish_choice(state, choice.finish_reason)
        if choice.__pydantic_extra__:
            keep_unknown(state.extra, choice.__pydantic_extra__, EXTENDED_IN_CHOICE)

    def _add_message(self, state: ChoiceState, message: ChoiceDelta) -> None:
        """Keep a whole message for the end; one of a tool is folded as a delta."""
        if is_of_tool(vars(message)):
            self.output_size += self._add_delta(state, message)
        else:
            self.log.note(anomalies.FULL_MESSAGE, "choice {}", state.index)
            if state.message is None or says_something(fields_of(message)):  # an empty one at the end replaces nothing
                state.message = message

    def _finish_choice(self, state: ChoiceState, finish_reason: str) -> None:
        outcome = outcome_of(finish_reason)
        if outcome is None:
            self.log.note(anomalies.EMPTY_FOR_ABSENT, "finish_reason")
            return
        if (known := state.finish_reason) is not None:
            self.log.note(anomalies.FINISHED_TWICE, "choice {}: {} after {}", state.index, finish_reason, known)
        state.finish_reason = finish_reason
        if isinstance(draft := state.message_extra.get(DRAFT), str):
            # The last draft (CF222) is the text of a choice that finishes without another, like a whole message's.
            del state.message_extra[DRAFT]
            if state.message is None and not state.text("content"):
                state.message = ChoiceDelta(content=draft)
        if finish_reason not in _FINISH_REASONS and outcome is not Outcome.ERROR:
            self.log.note(anomalies.FINISH_UNUSUAL, "{}", finish_reason)
        if state.observer is not None and state.message is None:  # else it may add to the choice at the end
            notify_finish(state, state.observer)

    def _add_delta(self, state: ChoiceState, delta: ChoiceDelta) -> int:
        """Fold a delta; return how many characters of output it brought."""
        size = fold_delta(state, delta)
        if state.in_thought:
            self._open_thoughts.add(state.index)
            self.head.usual = None  # so that no chunk takes the short path before the thought is closed
        return size

    def _close_thoughts(self, chunk: ChatCompletionChunk) -> ChatCompletionChunk:
        """Close the open thoughts that text follows in a chunk; return the chunk without the tags that close them."""
        choices = [*chunk.choices]
        for place, choice in enumerate(choices):
            if choice.index in self._open_thoughts and text_in(fields_of(choice.delta)):
                self._open_thoughts.remove(choice.index)
                self.states[choice.index].in_thought = False
                if isinstance(text := choice.delta.content, str):
                    delta = choice.delta.model_copy(update={"content": text.removeprefix(CLOSING_THOUGHT_TAG)})
                    choices[place] = choice.model_copy(update={"delta": delta})
        return chunk.model_copy(update={"choices": choices}) if choices != chunk.choices else chunk


def brings_output(*choices: ChunkChoice) -> bool:
    """Whether any of a chunk's choices brings output by itself."""
    fold = StreamFold()
    for choice in choices:
        fold._add_choice(choice)  # pyright: ignore[reportPrivateUsage] - of this module
    return fold.has_output
