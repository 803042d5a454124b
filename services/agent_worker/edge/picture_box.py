"""Keeps the images of results, so that they are there for whoever goes on with the run."""

import structlog

from services.agent_worker.ports import Pictured, ToolUse
from services.agent_worker.rules.pictures import image_block, image_id, kept_images
from shared.domain.chat import ContentBlock
from shared.errors import TryLater
from shared.ports.blobs import Blobs

_log = structlog.get_logger(__name__)

NOT_KEPT = "\n[its images are not shown: they could not be stored]"


class PictureBox:
    """``largest``: bytes of one image that a provider takes."""

    def __init__(self, blobs: Blobs, *, largest: int) -> None:
        self._blobs = blobs
        self._largest = largest

    async def keep(self, pictured: Pictured, use: ToolUse) -> tuple[list[ContentBlock], str]:
        """What stands in the result for them, and lines to add to its words. Stored before anybody refers to it."""
        places, lines = kept_images(pictured.images, largest=self._largest)
        blocks: list[ContentBlock] = []
        for place in places:
            image = pictured.images[place]
            id = image_id(use.run_id, use.key, image.data)
            try:
                await self._blobs.keep(id, use.run_id, image)
            except TryLater as fault:  # the tool has done its work, and what it said is worth more than its images
                _log.warning("images_not_kept", run=str(use.run_id), reason=str(fault))
                return [], NOT_KEPT
            blocks.append(image_block(id, image))
        return blocks, lines
