"""Which images of a history a model is shown."""

from services.agent_worker.rules.images import MOST_BYTES, MOST_IMAGES, NOT_SHOWN, REFUSED, images_to_show, with_images
from shared.domain.chat import BlobBlock, Message
from tests.builders import said, user


def blob(id: str, size: int = 100, content_type: str = "image/png") -> BlobBlock:
    """An attachment of a message."""
    return {
        "type": "blob",
        "id": id,
        "content_type": content_type,
        "filename": "",
        "size": size,
        "text": f"[image: {id}]",
    }


def with_blobs(*blobs: BlobBlock) -> Message:
    """A message that brings them."""
    return {"role": "user", "content": [{"type": "text", "text": "look"}, *blobs]}


def shown(*messages: Message, largest: int = 1000) -> list[str]:
    """Their ids."""
    return [block["id"] for block in images_to_show(messages, largest=largest)]


def test_the_newest_come_first_and_what_is_no_image_never() -> None:
    """What was just sent is what is asked about."""
    history = [
        with_blobs(blob("a"), blob("b")),
        said("nice"),
        user("and?"),
        with_blobs(blob("c", 5, "application/pdf"), blob("d")),
    ]
    assert shown(*history) == ["d", "b", "a"]


def test_they_are_bounded_in_number_and_in_size() -> None:
    """A request to a provider is, and so is memory."""
    many = with_blobs(*(blob(str(number)) for number in range(MOST_IMAGES + 3)))
    assert shown(many) == [str(number) for number in range(MOST_IMAGES + 2, 2, -1)]
    large = MOST_BYTES // 2
    assert shown(with_blobs(blob("a", 1), blob("b", large), blob("c", large), blob("d", 1)), largest=large) == [
        "d",
        "c",
    ]


def test_one_that_is_too_large_is_passed_over() -> None:
    """It is told of; the others are shown all the same."""
    assert shown(with_blobs(blob("a"), blob("b", 1001), blob("c"))) == ["c", "a"]


def test_an_image_stands_behind_its_words() -> None:
    """So the model knows which is which, and what is not shown any more."""
    messages = [user("hello"), with_blobs(blob("a"), blob("b")), said("nice")]
    told = with_images(messages, {"b": "QUJD"})
    assert told == [
        user("hello"),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "text", "text": "[image: a]"},
                {"type": "text", "text": "[image: b]"},
                {"type": "image", "media_type": "image/png", "data": "QUJD"},
            ],
        },
        said("nice"),
    ]
    plain: list[Message] = [user("hello"), said("nice")]
    assert with_images(plain, {}) is plain


def results(*images: BlobBlock) -> Message:
    """What two calls brought, the first of them with images."""
    return {
        "role": "tool_results",
        "results": [
            {"tool_use_id": "t1", "content": "seen", "images": [*images]},
            {"tool_use_id": "t2", "content": "done"},
        ],
    }


def test_images_of_results_are_shown_like_those_of_messages() -> None:
    """By age, whoever they come from; and what is not shown any more is told of."""
    history = [with_blobs(blob("a")), results(blob("b"), blob("c")), with_blobs(blob("d"))]
    assert shown(*history) == ["d", "c", "b", "a"]
    (told,) = with_images([results(blob("b"), blob("c"), blob("d"))], {"c": "QUJD"}, refused={"d"})
    assert told["role"] == "tool_results"
    assert told["results"] == [
        {
            "tool_use_id": "t1",
            "content": "seen",
            "images": [
                {"type": "text", "text": NOT_SHOWN},
                {"type": "image", "media_type": "image/png", "data": "QUJD"},
                {"type": "text", "text": REFUSED},
            ],
        },
        {"tool_use_id": "t2", "content": "done"},
    ]
