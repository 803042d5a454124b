"""When a session is compacted, where it is cut, and what is said to whom."""

from collections.abc import Sequence

from shared.domain.chat import Message

TOOL_RESULT_CHARS = 2000

DEFAULT_PROMPT = """\
You write the memory of {agent_name}. Below is the older part of a conversation that no longer fits.
Summarise it in at most {max_tokens} tokens for {agent_name}, who will go on with the conversation: who said and asked
what, what was decided, promised and left open, names, numbers, file paths and commands that may be needed again, and
how people felt about it. Leave nothing out that {agent_name} would have to ask for again. Write plain prose or short
lists, with nothing before or after the summary."""


def warning_due(*, context_tokens: int, threshold: int, warning_share: float, warned: bool) -> bool:
    """Whether the one-time warning goes before the next user message."""
    return not warned and context_tokens >= threshold * warning_share


def compaction_due(*, context_tokens: int, threshold: int, compact_above: int = 0) -> bool:
    """Whether the session is to be compacted after this run."""
    return context_tokens > max(threshold, compact_above)


def next_try_above(context_tokens: int) -> int:
    """From how many tokens on a compaction that failed is tried again: each try is paid for, and most fail again."""
    return context_tokens + context_tokens // 10


def warning_text(*, context_tokens: int, threshold: int) -> str:
    """What the agent reads before its older memories are summarised."""
    share = round(100 * context_tokens / threshold)
    return (
        f"This conversation fills {share} % of what it may hold; older messages will soon be summarised. "
        "Write down now what must not be lost."
    )


def cut_at(messages: Sequence[Message], *, keep_share: float, min_messages: int) -> int:
    """How many of the oldest messages are summarised; 0 when there are too few.

    The cut never parts a tool call from its result: results that would begin the kept part go with their call.
    """
    if len(messages) < max(min_messages, 2):
        return 0
    cut = len(messages) - max(1, round(len(messages) * keep_share))
    while cut < len(messages) and messages[cut]["role"] == "tool_results":
        cut += 1
    return cut


def transcript(
    summary: str | None,
    messages: Sequence[Message],
    *,
    tool_result_chars: int = TOOL_RESULT_CHARS,
    limit: int = 1_000_000,
) -> str:
    """The part to be summarised, as text of at most about ``limit`` characters.

    Single messages that would take more than a tenth of it are cut in their middle; then the oldest parts give way,
    the earlier summary last of all.
    """
    head = f"Summary of what came before:\n{summary}"[: limit // 2] if summary else ""
    left, kept = limit - len(head), list[str]()
    for message in reversed(messages):
        part = _cut_in_the_middle(_spoken(message, tool_result_chars), max(200, limit // 10))
        if len(part) > left:
            break
        left -= len(part)
        kept.append(part)
    return "\n\n".join(part for part in (head, *reversed(kept)) if part)


def _cut_in_the_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _spoken(message: Message, tool_result_chars: int) -> str:
    match message["role"]:
        case "user":
            content = message["content"]
            if not isinstance(content, str):
                content = " ".join("[image]" if block["type"] == "image" else block["text"] for block in content)
            return f"User: {content}"
        case "assistant":
            calls = "".join(f"\n(used {call['name']}: {call['arguments']})" for call in message.get("tool_calls", []))
            return f"Assistant: {message['text']}{calls}"
        case "tool_results":
            return "\n".join(f"Tool result: {result['content'][:tool_result_chars]}" for result in message["results"])
