"""A message as it came in, by whichever route, checked and with the place where it belongs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.gateway.rules.attachments import AttachmentBody
from shared.domain.run import Address, Source, WhenBusy


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message and where it belongs. ``meta`` is what its webhook gives back as ``notify_meta``; ``files`` come with
    it, not yet decoded."""

    text: str
    sender: str
    source: Source
    tier: str
    address: Address
    meta: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[AttachmentBody] = ()
    when_busy: WhenBusy = "queue"
