"""What any relay needs: which headers to forward, and what an answer cost."""

from chunkfold import ChatCompletion, CompletionUsage

KEPT_BACK = b"accept-encoding connection content-length host keep-alive te trailer transfer-encoding upgrade".split()
KEPT_BACK += b"proxy-authenticate proxy-authorization proxy-connection".split()
PRICES = {"gpt-5-mini": (0.25, 2.0)}  # dollars for a million tokens, in and out


def usage_and_cost(answer: ChatCompletion) -> str:
    """The usage and its cost; values that the provider did not send are unknown, not zero."""
    usage = answer.usage or CompletionUsage()
    tokens = [count for count in (usage.prompt_tokens, usage.completion_tokens) if count is not None]
    if len(tokens) < 2:
        return "usage and cost not known"
    told = f"{tokens[0]} tokens in, {tokens[1]} out"
    if answer.model not in PRICES:
        return f"{told}, cost not known"
    cost = sum(count * price / 1e6 for count, price in zip(tokens, PRICES[answer.model], strict=True))
    return f"{told}, ${cost:.7f}"


def passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """All but those of one connection, which may name more, and the length: it would let a cut body look whole."""
    named = b",".join(value for name, value in headers if name.lower() == b"connection").lower().translate(None, b" \t")
    return [(name.lower(), value) for name, value in headers if name.lower() not in (*KEPT_BACK, *named.split(b","))]
