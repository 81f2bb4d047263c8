"""A chat model for LangChain on chunkfold: it streams, sync and async, calls tools, and reports the usage.

It needs langchain-core. The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine.
"""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from _provider import base_url
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, convert_to_openai_messages
from langchain_core.messages.tool import default_tool_parser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from chunkfold import ChatCompletion, aconnect, connect


class ChatChunkfold(BaseChatModel):
    """Chat completions of any provider, over clients that know its URL and the key, and are yours to close."""

    model: str
    client: httpx.Client
    async_client: httpx.AsyncClient

    @property
    def _llm_type(self) -> str:
        return "chunkfold"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Offer tools: functions, pydantic models, or LangChain's own."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _request(self, messages: Any, stop: Any, options: dict[str, Any]) -> dict[str, Any]:
        sent = [one.additional_kwargs.get("param") or convert_to_openai_messages(one) for one in messages]
        body = {"model": self.model, "messages": sent, **options, "stream_options": {"include_usage": True}}
        return {"method": "POST", "url": "chat/completions", "json": body | ({"stop": stop} if stop else {})}

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> ChatResult:  # noqa: ARG002
        with connect(self.client, **self._request(messages, stop, kw)) as stream:
            completion = stream.read()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(completion.text, **at_the_end(completion)))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> Iterator[Any]:  # noqa: ARG002
        with connect(self.client, **self._request(messages, stop, kw)) as stream:
            yield from map(_piece, stream.text_deltas())
        yield _piece("", **at_the_end(stream.completion()))

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> AsyncIterator[Any]:  # noqa: ARG002
        async with aconnect(self.async_client, **self._request(messages, stop, kw)) as stream:
            async for text in stream.text_deltas():
                yield _piece(text)
        yield _piece("", **at_the_end(stream.completion()))


def _piece(text: str, **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=text, **fields))


def at_the_end(answer: ChatCompletion) -> dict[str, Any]:
    """The fields that are yielded once: LangChain adds up what is sent twice, and completes half a call's arguments."""
    message = answer.message.model_copy(update={"tool_calls": [c for c in answer.tool_calls if not c.is_server_side]})
    told: Any = {k: v for k, v in (("reasoning_content", message.reasoning), ("refusal", message.refusal)) if v}
    told |= {"param": param} if (param := answer.message.to_param()).keys() - {"role", "content", "refusal"} else {}
    fields: dict[str, Any] = {"additional_kwargs": told, "response_metadata": {"finish_reason": answer.finish_reason}}
    fields["tool_calls"], fields["invalid_tool_calls"] = default_tool_parser(message.to_param().get("tool_calls", []))
    if usage := answer.usage:
        counts = {"input_tokens": usage.prompt_tokens or 0, "output_tokens": usage.completion_tokens or 0}
        fields["usage_metadata"] = {**counts, "total_tokens": usage.total_tokens or sum(counts.values())}
    return fields


if __name__ == "__main__":
    key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
    with base_url() as base, httpx.Client(base_url=base, headers=key, timeout=120) as http:
        chat = ChatChunkfold(model="gpt-5-mini", client=http, async_client=httpx.AsyncClient())
        print(*(message.text for message in chat.stream("Greet me in one sentence.")), sep="")
