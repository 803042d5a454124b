"""Which images of a tool's result are kept."""

from services.agent_worker.rules.images import MOST_BYTES, MOST_IMAGES
from services.agent_worker.rules.pictures import MOST_LEFT_OUT, image_block, image_id, kept_images
from shared.domain.attachment import Attachment
from shared.ids import new_id


def image(size: int = 10, content_type: str = "image/png") -> Attachment:
    return Attachment(content_type, b"x" * size)


def test_what_is_too_large_or_of_another_type_is_told_in_words() -> None:
    """A model that hears nothing of it would say that there is nothing."""
    kept, lines = kept_images([image(), image(101), image(5, "image/tiff"), image(100)], largest=100)
    assert kept == [0, 3]
    assert lines == (
        "\n[image 2 is not shown: it has 101 bytes, more than 100]"
        "\n[image 3 is not shown: it is none that models can see]"
    )


def test_a_result_brings_no_more_than_a_model_is_shown() -> None:
    """In number and in size; and what is said of the rest is bounded, too."""
    kept, lines = kept_images([image()] * 1000, largest=100)
    assert kept == list(range(MOST_IMAGES))
    assert lines.count("\n") == MOST_LEFT_OUT + 1
    assert lines.endswith(f"\n[{1000 - MOST_IMAGES - MOST_LEFT_OUT} more images are not shown]")
    half = image(MOST_BYTES // 2)
    assert kept_images([half, half, image(1)], largest=MOST_BYTES)[0] == [0, 1]


def test_another_try_of_a_call_takes_no_images_place() -> None:
    """What a result refers to stays what it was."""
    run = new_id()
    assert image_id(run, "k", b"a") == image_id(run, "k", b"a")
    assert len({image_id(run, "k", b"a"), image_id(run, "k", b"b"), image_id(run, "l", b"a")}) == 3
    block = image_block(run, image(3))
    assert (block["id"], block["size"], block["text"]) == (str(run), 3, "[image of type image/png, 3 bytes]")
