"""Which images of a history a model is shown, and how they stand in what it reads."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from shared.domain.attachment import is_image
from shared.domain.chat import BlobBlock, ContentBlock, Message, ToolResult

MOST_IMAGES = 8
MOST_BYTES = 12_000_000
"""Of all of them together: providers take some 20 MB a request, and base64 takes a third more."""

REFUSED = "[this image is not shown: the model's provider refused a request with it]"
NOT_SHOWN = "[this image is not shown]"
"""Only of a tool's result: there the words tell of it whether it is shown or not."""


def images_to_show(messages: Sequence[Message], *, largest: int) -> list[BlobBlock]:
    """The newest images, the newest first, as many as may be shown; none that is larger than ``largest`` bytes."""
    found: list[BlobBlock] = []
    left = MOST_BYTES
    for block in _newest_images(messages):
        if block["size"] > largest:
            continue
        if block["size"] > left or len(found) == MOST_IMAGES:
            break  # older ones are not shown in its place: a model is shown the latest, without gaps
        left -= block["size"]
        found.append(block)
    return found


def with_images(
    messages: Sequence[Message], data: Mapping[str, str], *, refused: Collection[str] = ()
) -> Sequence[Message]:
    """The same as a model reads it: each attachment in words, and behind them the image where ``data`` (base64, by the
    id of the blob) has it, or that it was ``refused``."""
    if not any(_has_blobs(message) for message in messages):
        return messages
    return [_shown(message, data, refused) for message in messages]


def _newest_images(messages: Sequence[Message]) -> Iterator[BlobBlock]:
    for message in reversed(messages):
        if message["role"] == "tool_results":
            for result in reversed(message["results"]):
                for block in reversed(result.get("images", [])):
                    if block["type"] == "blob" and is_image(block):
                        yield block
        elif message["role"] == "user" and not isinstance(message["content"], str):
            for block in reversed(message["content"]):
                if block["type"] == "blob" and is_image(block):
                    yield block


def _has_blobs(message: Message) -> bool:
    if message["role"] == "tool_results":
        return any("images" in result for result in message["results"])
    if message["role"] != "user" or isinstance(message["content"], str):
        return False
    return any(block["type"] == "blob" for block in message["content"])


def _shown(message: Message, data: Mapping[str, str], refused: Collection[str]) -> Message:
    if message["role"] == "tool_results":
        return {**message, "results": [_shown_result(result, data, refused) for result in message["results"]]}
    if message["role"] != "user" or isinstance(message["content"], str):
        return message
    content: list[ContentBlock] = []
    for block in message["content"]:
        if block["type"] != "blob":
            content.append(block)
            continue
        content.append({"type": "text", "text": block["text"]})
        if block["id"] in data:
            content.append({"type": "image", "media_type": block["content_type"], "data": data[block["id"]]})
        elif block["id"] in refused:
            content.append({"type": "text", "text": REFUSED})
    return {**message, "content": content}


def _shown_result(result: ToolResult, data: Mapping[str, str], refused: Collection[str]) -> ToolResult:
    if "images" not in result:
        return result
    images: list[ContentBlock] = []
    for block in result["images"]:
        if block["type"] != "blob":
            images.append(block)
        elif block["id"] in data:
            images.append({"type": "image", "media_type": block["content_type"], "data": data[block["id"]]})
        else:
            images.append({"type": "text", "text": REFUSED if block["id"] in refused else NOT_SHOWN})
    return {**result, "images": images}
