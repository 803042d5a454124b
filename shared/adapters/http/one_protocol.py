"""A connection on which HTTP/1.1 is spoken, and nothing else ever."""

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_INVALID = "Invalid HTTP request received."


class OneProtocol(HttpToolsProtocol):
    """An ``Upgrade`` is ignored, as RFC 9110 (7.8) lets a server do: the request is answered as if it had none.

    The parser knows no such thing. It takes what follows such a head for the other protocol, and stops there; asked to
    go on, it takes the body for the next request. So the head is read once more by a new parser, without the wish, and
    what follows it by that one.
    """

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self._unset_keepalive_if_required()
        unread: bytes | memoryview = data
        try:
            while True:  # many requests may have come at once
                try:
                    self.parser.feed_data(unread)
                except httptools.HttpParserUpgrade as wish:
                    unread = memoryview(unread)[wish.args[0] :]
                    self._say_head_again()
                else:
                    return
        except httptools.HttpParserError:
            self.logger.warning(_INVALID)
            self.send_400_response(_INVALID)

    def send_400_response(self, msg: str) -> None:
        """As every other error: an object with the field ``error``."""
        body = b'{"error":"%b"}' % msg.encode("ascii")
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        self.transport.close()

    def _should_upgrade(self) -> bool:
        """uvicorn asks this of heads with a wish alone, and keeps its hands off them when it is true."""
        return True

    def _say_head_again(self) -> None:
        method = self.parser.get_method()
        if method == b"CONNECT":  # a wish in itself; what follows is neither a body nor a request
            raise httptools.HttpParserError(_INVALID)
        head = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        head += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.parser.feed_data(b"\r\n".join(head) + b"\r\n\r\n")
