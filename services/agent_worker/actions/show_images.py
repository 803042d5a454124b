"""Load the images that a model is to be shown; the history itself only refers to them."""

import base64
from collections.abc import Sequence
from uuid import UUID

from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.rules.images import images_to_show, with_images
from shared.domain.chat import Message


async def show_images(attempt: Attempt, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with the latest images in them, if this model sees; attachments that are there no more stay words,
    and in place of what the provider refused stands that it did.

    What was loaded is kept for the next turn of this attempt. Raises ``TryLater``.
    """
    largest, spec = attempt.desk.manner.largest_image, attempt.model.spec
    ids = [block["id"] for block in images_to_show(messages, largest=largest)] if spec.supports_vision else []
    refused = {*attempt.refused, *attempt.desk.refused.among(spec.model, ids)}
    wanted = [id for id in ids if id not in refused]
    missing = [UUID(id) for id in wanted if id not in attempt.images]
    loaded = await attempt.desk.blobs.load(missing) if missing else {}
    fresh = {str(id): base64.b64encode(data).decode() for id, data in loaded.items()}
    known = {**attempt.images, **fresh}
    attempt.images = {id: known[id] for id in wanted if id in known}
    return with_images(messages, attempt.images, refused=refused)
