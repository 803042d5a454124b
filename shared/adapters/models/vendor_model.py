"""A model behind a vendor's API: what is the same whichever vendor it is."""

from collections.abc import Callable, Mapping
from typing import Any

from shared.adapters.models.sender import Sender
from shared.adapters.models.vendor_call import Vendor, call_vendor, refusal_of, secrets_of
from shared.adapters.models.wire_answer import WireAnswer
from shared.adapters.models.wire_json import to_wire
from shared.domain.provider import ModelSpec
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta


class VendorModel:
    """One configured model; calls may overlap, they share the client's connections.

    ``errors`` is the root of what the vendor's SDK raises, ``write`` makes the body of a call, ``read`` begins to read
    an answer.
    """

    def __init__(
        self,
        spec: ModelSpec,
        sender: Sender,
        *,
        errors: type[Exception],
        write: Callable[[ModelSpec, ModelRequest], Mapping[str, Any]],
        read: Callable[[], WireAnswer],
    ) -> None:
        self._spec = spec
        self._sender = sender
        self._vendor = Vendor(errors=errors, secrets=secrets_of(spec), refusal=refusal_of(spec))
        self._write = write
        self._read = read

    @property
    def spec(self) -> ModelSpec:
        """What the operator configured."""
        return self._spec

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """Ask once; see the port."""
        answer = self._read()
        await call_vendor(
            self._sender,
            request,
            to_wire(self._write(self._spec, request)),
            answer,
            on_delta if self._spec.supports_streaming else None,
            vendor=self._vendor,
        )
        return answer.answer(request)
