"""Bodies that come packed, unpacked no further than there is room for."""

import zlib

from shared.ports.egress import EgressFailed

PIECE = 1_048_576
"""Bytes that are unpacked at once; the event loop has a look around in between."""

ACCEPTED = "gzip, deflate"
_CAN_T = "the body is packed in a way that can't be unpacked"


class Unpacking:
    """One content coding at most: a few bytes packed several times over would keep a processor busy for hours."""

    def __init__(self, content_encoding: str) -> None:
        codings = [each.strip().lower() for each in content_encoding.split(",")]
        self._codings = [each for each in codings if each not in {"", "identity"}]
        if len(self._codings) > 1 or not set(self._codings) <= {"gzip", "x-gzip", "deflate"}:
            raise EgressFailed(_CAN_T)
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32) if self._codings else None
        self._is_first = True
        self._waiting = b""

    @property
    def is_over(self) -> bool:
        """What still comes is not part of the body."""
        return self._unpacker is not None and self._unpacker.eof

    @property
    def is_whole(self) -> bool:
        """With what has come so far, nothing is missing."""
        return self._unpacker is None or self._unpacker.eof or self._is_first

    def add(self, packed: bytes) -> None:
        """What has come. ``take`` it before there is more."""
        self._waiting += packed

    def take(self, room: int) -> bytes:
        """At most ``room`` bytes of the body, and at most ``PIECE``; nothing when more has to come."""
        most = min(room, PIECE)
        if self._unpacker is None:
            taken, self._waiting = self._waiting[:most], self._waiting[most:]
            return taken
        if self._unpacker.eof or most <= 0:  # to zlib no room would be no limit
            return b""
        try:
            taken = self._unpacker.decompress(self._waiting, most)
        except zlib.error as error:
            if not (self._is_first and self._codings == ["deflate"]):
                raise EgressFailed(_CAN_T) from error
            taken = self._bare(most)
        self._is_first = self._is_first and not self._waiting
        self._waiting = self._unpacker.unconsumed_tail
        return taken

    def _bare(self, most: int) -> bytes:
        """Some servers send it without the head that the standard asks for."""
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return self._unpacker.decompress(self._waiting, most)
        except zlib.error as error:
            raise EgressFailed(_CAN_T) from error
