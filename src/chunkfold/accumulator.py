"""Fold chunks into a message: one rule per field, never by Python type.

Most deltas carry one field: the fold looks at the common one first and leaves the others to the table in `choices`.
Choices are kept by their index, which is a key and never a position.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final

from chunkfold.anomalies import (
    CHOICES_MISSING,
    DELTA_MISSING,
    EMPTY_FOR_ABSENT,
    FINISH_UNUSUAL,
    FINISHED_TWICE,
    FULL_MESSAGE,
    HEAD_MISSING,
    ID_CHANGED,
    INDEX_MISSING,
    OBJECT_UNUSUAL,
    OUTPUT_AFTER_FINISH,
    STOP_WITH_CALLS,
    WRONG_TYPE,
    AnomalyLog,
)
from chunkfold.choice_snapshot import choice_snapshot
from chunkfold.choices import ChoiceState, fold_delta, fold_logprobs, fold_tool_calls, gap_in
from chunkfold.errors import excerpt
from chunkfold.fold_observer import FoldObserver, replay, tell_finish
from chunkfold.footprint import footprint
from chunkfold.json_values import copied, is_object
from chunkfold.merging import keep_unknown, merge_usage
from chunkfold.models import (
    ChatCompletion,
    ChatCompletionChunk,
    ChoiceDelta,
    ChunkChoice,
    CompletionUsage,
    Outcome,
)
from chunkfold.models.completion import ToolTypes, checked_types, give_types
from chunkfold.models.outcome import outcome_of

_FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
_FIRST_WINS: Final = ("id", "created", "model", "system_fingerprint")
_HEAD_FIELDS: Final = (*_FIRST_WINS, "object", "service_tier")
_COMPACTION: Final = 1024  # chunks
_USUAL_CHOICE: Final = frozenset({"index", "delta"})
_TELLING: Final = frozenset({"error", "base_resp", "usage", "x_groq"})  # unknown keys that say more
_head_values = itemgetter(*_HEAD_FIELDS)
_usual_fields = itemgetter("content", "tool_calls")


class ChatCompletionAccumulator:
    """Fold the chunks of one stream.

    Args:
        log: Where to note what was tolerated; its own if none is given.
        tools: The types of the tools' arguments, by the tools' names: models, TypedDicts or dataclasses.

    Raises:
        TypeError: Pydantic knows nothing to do with the type of a tool.

    Attributes:
        output_size: How much output came, in characters.
        chunks: How many chunks came.
        log: What was tolerated.
        tools: The types of the tools' arguments.
        plain_head: The fields that all chunks repeat, as last seen with nothing odd about them.
    """

    def __init__(self, log: AnomalyLog | None = None, tools: ToolTypes | None = None) -> None:
        self.log = AnomalyLog() if log is None else log
        self.tools = checked_types(tools or {})
        self.output_size = 0
        self.chunks = 0
        self._next_compaction = _COMPACTION
        self.plain_head: tuple[Any, ...] | None = None
        self._head: dict[str, Any] = {}
        self._service_tier: str | None = None
        self._usage: dict[str, Any] | None = None
        self._extra: dict[str, Any] = {}
        self._choices: dict[int, ChoiceState] = {}
        self._open_choices = 0
        self._ended = False
        self._observer: FoldObserver | None = None

    @property
    def has_output(self) -> bool:
        """Whether any output came: text, reasoning, refusal, a tool call's name or arguments, audio, image."""
        return self.output_size > 0

    @property
    def footprint(self) -> int:
        """Roughly how much is kept, in characters: the output, and whatever else came with it."""
        return footprint([self._choices, self._head, self._service_tier, self._usage, self._extra])

    @property
    def all_finished(self) -> bool:
        """Whether at least one choice was seen, and every one has its finish reason."""
        return bool(self._choices) and not self._open_choices

    def add_usual(self, chunk: ChatCompletionChunk) -> bool:
        """Fold a chunk in if it is what most are: the same head as before, one choice that goes on, and no error.

        What comes of it is what `add` makes of it, faster. If the chunk is anything else, nothing happens, and False is
        returned.
        """
        fields, unknown = chunk.__dict__, chunk.__pydantic_extra__
        choices = fields["choices"]
        if (
            _head_values(fields) != self.plain_head
            or len(choices) != 1
            or (unknown and not _TELLING.isdisjoint(unknown))
        ):
            return False
        choice, usage = choices[0], fields["usage"]
        fields, unknown_of_choice = choice.__dict__, choice.__pydantic_extra__
        state = self._choices.get(fields["index"])
        if (
            state is None
            or state.finish_reason is not None
            or fields["finish_reason"] is not None
            or fields["logprobs"] is not None
            or fields["message"] is not None
            or (unknown_of_choice and not _TELLING.isdisjoint(unknown_of_choice))
            or not choice.__pydantic_fields_set__ >= _USUAL_CHOICE
        ):
            return False
        self.chunks += 1
        if unknown:
            keep_unknown(self._extra, unknown)
        delta = fields["delta"]
        content, calls = _usual_fields(delta.__dict__)
        if len(delta.__pydantic_fields_set__) != 1:
            self._add_delta(state, delta)
        elif type(content) is str:
            state.write("content", content)
            self.output_size += len(content)
        elif calls:
            self.output_size += fold_tool_calls(state, calls)
        else:
            self._add_delta(state, delta)
        if unknown_of_choice:
            keep_unknown(state.extra, unknown_of_choice)
        if usage is not None:
            self._add_usage(usage)
        return True

    def add_text(self, choice: int, text: str, head: object) -> bool:
        """Fold what `add_usual` would take: a text for an open choice, under the plain head that is still in force."""
        state = self._choices[choice]
        if head is not self.plain_head or state.finish_reason is not None:
            return False
        self.chunks += 1
        state.write("content", text)
        self.output_size += len(text)
        return True

    def add(self, chunk: ChatCompletionChunk) -> None:
        """Fold one chunk in. The chunk is not changed."""
        self.chunks += 1
        self.compact()
        # By the dict, not by attribute: a value of a wrong type is kept raw beside the fields, not among them.
        fields, unknown = vars(chunk), chunk.__pydantic_extra__
        self._add_head(fields)
        if unknown:
            keep_unknown(self._extra, unknown)
        for choice in chunk.choices:
            self._add_choice(choice)
            unknown = unknown or choice.__pydantic_extra__
        if not chunk.choices and "choices" not in chunk.__pydantic_fields_set__:
            self.log.note(CHOICES_MISSING)
        usage = fields.get("usage")
        if unknown and (usage is None or not usage.model_fields_set):
            usage = self._nested_usage(chunk) or usage
        if usage is not None:
            self._add_usage(usage)

    def compact(self) -> None:
        """Join the pieces of all texts, if many came since the last time; else nothing happens."""
        if self.chunks >= self._next_compaction:
            # Where there are many choices or calls, so much the more seldom: the cost stays linear.
            texts = sum(1 + len(state.tool_calls.calls if state.tool_calls else ()) for state in self._choices.values())
            self._next_compaction = self.chunks + max(_COMPACTION, texts)
            for state in self._choices.values():
                state.compact()

    def observe(self, observer: FoldObserver) -> None:
        """Tell an observer what has arrived so far, and from now on what arrives."""
        self._observer = observer
        for state in self._choices.values():
            state.observer = observer
            replay(state, observer)
        if self._usage is not None:
            observer.on_usage(self._usage)

    def tell_finishes(self, observer: FoldObserver) -> None:
        """Tell an observer of all finish reasons again: what came since may make tool calls of a plain stop."""
        for state in self._choices.values():
            tell_finish(state, observer)

    def finish(self, last_chunks: Iterable[ChatCompletionChunk] = ()) -> ChatCompletionChunk | None:
        """The stream ended: what whole messages add to the deltas, as a last chunk (already folded), or None.

        Args:
            last_chunks: What was held back until now, by us and not by the provider; folded first.
        """
        self._ended = True
        for held in last_chunks:
            self.add(held)
        gaps = [
            ChunkChoice(index=state.index, delta=delta) for state in self._choices.values() if (delta := gap_in(state))
        ]
        chunk = ChatCompletionChunk(object="chat.completion.chunk", choices=gaps) if gaps else None
        for choice in gaps:
            self._add_delta(self._choices[choice.index], choice.delta)
        for state in self._choices.values():
            if state.tool_calls is not None:
                state.tool_calls.finish()
            state.message = None
            if state.finish_reason == "stop" and state.has_calls:
                self.log.note(STOP_WITH_CALLS, f"choice {state.index}")
        missing = [name for name in ("id", "created", "model") if name not in self._head]
        if missing and self.chunks:
            self.log.note(HEAD_MISSING, ", ".join(missing))
        return chunk

    @property
    def snapshot(self) -> ChatCompletion:
        """What has arrived so far; costs as much as the output is long."""
        fields = {
            **copied(self._extra),
            **self._head,
            "choices": [choice_snapshot(self._choices[index]) for index in sorted(self._choices)],
        }
        if self._service_tier is not None:
            fields["service_tier"] = self._service_tier
        if self._usage is not None:
            fields["usage"] = CompletionUsage.validate_leniently(copied(self._usage))[0]
        completion = ChatCompletion.validate_leniently(fields)[0]
        if self.tools:
            for choice in completion.choices:
                give_types(choice.message.tool_calls, self.tools)
        return completion

    def _add_head(self, fields: dict[str, Any]) -> None:
        """The fields that most streams repeat in every chunk: what is equal to the last plain head says nothing new."""
        try:
            values = _head_values(fields)
        except KeyError:  # a value of a wrong type stands elsewhere
            values = tuple(fields.get(name) for name in _HEAD_FIELDS)
        if values == self.plain_head:
            return
        head = dict(zip(_HEAD_FIELDS, values, strict=True))
        plain = True
        for name in _FIRST_WINS:
            value = head[name]
            if value:
                first = self._head.setdefault(name, value)
                if first != value and name in ("id", "model"):
                    self.log.note(ID_CHANGED, f"{name}: {excerpt(value)} after {excerpt(first)}")
                    plain = False
            elif value is not None and name != "system_fingerprint":
                self.log.note(EMPTY_FOR_ABSENT, name)
                plain = False
        if head["object"] != "chat.completion.chunk":
            self.log.note(OBJECT_UNUSUAL, excerpt(head["object"]))
            plain = False
        if head["service_tier"]:
            self._service_tier = head["service_tier"]
        if plain:
            self.plain_head = values

    def _add_usage(self, usage: CompletionUsage) -> None:
        is_first = self._usage is None
        if self._usage is None:
            self._usage = {}
        changed = merge_usage(self._usage, usage.model_dump(exclude_unset=True), self.log)
        if self._observer is not None and (changed or is_first):
            self._observer.on_usage(self._usage)

    def _nested_usage(self, chunk: ChatCompletionChunk) -> CompletionUsage | None:
        """Moonshot puts usage into the choice, Groq into `x_groq`."""
        groq = (chunk.__pydantic_extra__ or {}).get("x_groq")
        holders = [*((choice.__pydantic_extra__ or {}) for choice in chunk.choices), groq]
        for holder in holders:
            if is_object(holder) and is_object(holder.get("usage")):
                usage, wrong = CompletionUsage.validate_leniently(copied(holder["usage"]))
                for one in wrong:
                    self.log.note(WRONG_TYPE, str(one))
                return usage
        return None

    def _add_choice(self, choice: ChunkChoice) -> None:
        index = choice.index
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = ChoiceState(index, self.log, self._observer)
            self._open_choices += 1
        present = choice.__pydantic_fields_set__
        if "index" not in present:
            self.log.note(INDEX_MISSING)
        fields = choice.__dict__
        logprobs, message = fields.get("logprobs"), fields.get("message")
        if "delta" in present:
            size = self._add_delta(state, choice.delta)
            if size and state.finish_reason and not self._ended:
                self.log.note(OUTPUT_AFTER_FINISH, f"choice {index}")
        elif message is None:
            self.log.note(DELTA_MISSING, f"choice {index}")
        if logprobs is not None:
            fold_logprobs(state, logprobs)
        if message is not None:
            self.log.note(FULL_MESSAGE, f"choice {index}")
            state.message = message
        if choice.finish_reason is not None:
            self._finish_choice(state, choice.finish_reason)
        if choice.__pydantic_extra__:
            keep_unknown(state.extra, choice.__pydantic_extra__)

    def _finish_choice(self, state: ChoiceState, finish_reason: str) -> None:
        if not finish_reason:
            self.log.note(EMPTY_FOR_ABSENT, "finish_reason")
            return
        if state.finish_reason is None:
            self._open_choices -= 1
        else:
            self.log.note(
                FINISHED_TWICE, f"choice {state.index}: {excerpt(finish_reason)} after {excerpt(state.finish_reason)}"
            )
        state.finish_reason = finish_reason
        if finish_reason not in _FINISH_REASONS and outcome_of(finish_reason) is not Outcome.ERROR:
            self.log.note(FINISH_UNUSUAL, excerpt(finish_reason))
        if state.observer is not None and state.message is None:  # else it may add to the choice at the end
            tell_finish(state, state.observer)

    def _add_delta(self, state: ChoiceState, delta: ChoiceDelta) -> int:
        """Fold a delta; return how many characters of output it brought."""
        size = fold_delta(state, delta)
        self.output_size += size
        return size
