"""``Egress`` over HTTP: every hop is read, judged and asked anew, and everything that comes is bounded."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Collection, Mapping

import httpx2
import structlog

from shared.adapters.http.guarded_network import GuardedNetwork, reason_in
from shared.adapters.http.guarded_transport import GuardedTransport
from shared.adapters.http.unpacking import ACCEPTED, Unpacking
from shared.adapters.models.dial import CONNECT_WITHIN
from shared.domain.destination import Destination, Origin, read_destination, redirected, refusal_of
from shared.errors import BadInput
from shared.ports.egress import Answer, EgressFailed, EgressRefused, Question, UnwantedContent

log = structlog.get_logger(__name__)

AGENT = "Mozilla/5.0 (compatible; lucyd)"
HOLLOW = 65_536
"""Bytes that an answer may have, packed, beyond what is wanted of it unpacked."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BODY_GOES_ALONG = frozenset({307, 308})
_FOR_EVERYBODY = frozenset({"accept", "accept-language", "user-agent"})
_WRITTEN_HERE = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"}
    | {"accept-encoding", "proxy-authorization", "proxy-connection", "keep-alive"}
)


class HttpEgress:
    """``Egress`` on a transport that guards; ``allowed`` are the hosts and ports that are its operator's."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, allowed: Collection[Origin] = ()) -> None:
        self._transport = transport
        self._allowed = frozenset(allowed)

    async def ask(self, question: Question) -> Answer:
        """See ``Egress.ask``."""
        try:
            async with asyncio.timeout(question.within.total_seconds()):
                return await self._follow(question)
        except TimeoutError as error:
            raise EgressFailed(f"no answer within {question.within.total_seconds():g} s", is_late=True) from error
        except EgressRefused as refused:
            log.warning("egress_refused", reason=str(refused))
            raise

    async def _follow(self, question: Question) -> Answer:
        given = {name.lower(): value for name, value in question.headers.items()}
        if forbidden := sorted(given.keys() & _WRITTEN_HERE):
            raise EgressRefused(f"the header {forbidden[0]} is not the caller's to set")
        method, content = question.method, question.content
        destination = self._judged(_read(question.url))
        for _ in range(question.redirects + 1):
            answer = await self._one(destination, method, given, content, question)
            if isinstance(answer, Answer):
                return answer
            status, location = answer
            to = self._judged(_redirected(destination, location))
            if status == 303 or (method == "POST" and status not in _BODY_GOES_ALONG):
                method, content = ("HEAD" if method == "HEAD" else "GET"), b""
                given = {name: value for name, value in given.items() if not name.startswith("content-")}
            if (to.scheme, to.origin) != (destination.scheme, destination.origin):
                if content:
                    raise EgressRefused("it redirects what was sent to somebody else")
                given = {name: value for name, value in given.items() if name in _FOR_EVERYBODY}
            destination = to
        raise EgressRefused(f"it redirects more than {question.redirects} times")

    def _judged(self, destination: Destination) -> Destination:
        """The network judges once more, with the addresses; this spares it what is clear already."""
        if refusal := refusal_of(destination.origin, is_allowed=destination.origin in self._allowed):
            raise EgressRefused(refusal)
        return destination

    async def _one(
        self, destination: Destination, method: str, headers: Mapping[str, str], content: bytes, question: Question
    ) -> Answer | tuple[int, str]:
        """The answer, or status and location of a redirect that is to be followed."""
        seconds = question.within.total_seconds()
        waits = {"connect": min(seconds, CONNECT_WITHIN), "read": seconds, "write": seconds, "pool": seconds}
        try:
            request = httpx2.Request(
                method,
                destination.url,
                headers={"user-agent": AGENT, "accept": "*/*", **headers, "accept-encoding": ACCEPTED},
                content=content or None,
                extensions={"timeout": waits},
            )
            response = await self._transport.handle_async_request(request)
            try:
                if question.redirects and response.status_code in _REDIRECTS and "location" in response.headers:
                    return response.status_code, _text(response.headers["location"])
                return await _taken(response, destination, question)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as fault:
            if reason := reason_in(fault):
                raise EgressRefused(reason) from fault
            is_unsent = isinstance(fault, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            is_late = isinstance(fault, httpx2.TimeoutException)
            raise EgressFailed(_said(fault), is_late=is_late, is_unsent=is_unsent) from fault


async def _taken(response: httpx2.Response, destination: Destination, question: Question) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    answer = Answer(response.status_code, destination.url, headers, b"")
    if question.takes is not None and response.is_success and not question.takes(answer.content_type):
        raise UnwantedContent(answer.content_type[:100])
    unpacking = Unpacking(headers.get("content-encoding", ""))
    body = bytearray()
    came = 0
    is_cut = False
    async with contextlib.aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            came += len(piece)
            unpacking.add(piece)
            # One byte more than is wanted tells whether there is more.
            while taken := unpacking.take(question.most_bytes + 1 - len(body)):
                body += taken
                await asyncio.sleep(0)
            # What is packed may also be long and hold nothing.
            is_cut = len(body) > question.most_bytes or came > question.most_bytes + HOLLOW
            if is_cut or unpacking.is_over:
                break
    is_cut = is_cut or not unpacking.is_whole
    return Answer(response.status_code, destination.url, headers, bytes(body[: question.most_bytes]), is_cut)


def _text(location: str) -> str:
    """Headers are Latin-1 to the library; servers that write other letters write UTF-8."""
    with contextlib.suppress(UnicodeError):
        return location.encode("latin-1").decode("utf-8")
    return location


def _read(url: str) -> Destination:
    try:
        return read_destination(url)
    except BadInput as error:
        raise EgressRefused(str(error)) from error


def _redirected(came_from: Destination, location: str) -> Destination:
    try:
        return redirected(came_from, location)
    except BadInput as error:
        raise EgressRefused(str(error)) from error


def _said(fault: Exception) -> str:
    if isinstance(fault, httpx2.ConnectTimeout):
        return "the host did not take the connection in time"
    if isinstance(fault, httpx2.ConnectError):
        is_tls = "CERTIFICATE" in str(fault).upper()
        return "the host's certificate is not valid" if is_tls else "the host could not be reached"
    if isinstance(fault, httpx2.TimeoutException):
        return "the host stopped in the middle of its answer"
    if isinstance(fault, httpx2.LocalProtocolError):
        return "that can't be asked over HTTP"
    return "the connection broke, or the answer is not HTTP"


@contextlib.asynccontextmanager
async def open_egress(
    allowed: Collection[Origin] = (), *, network: GuardedNetwork | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpEgress]:
    """A client for as long as the block lasts; nothing is connected before it is needed.

    ``allowed`` are its operator's hosts and ports, and nobody else's: each user of the web opens a client of its own,
    so that what one tool is allowed is not lent to another.
    """
    transport = GuardedTransport(network or GuardedNetwork(allowed), tls=tls)
    try:
        yield HttpEgress(transport, allowed)
    finally:
        await transport.aclose()
