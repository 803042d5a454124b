"""Sliding windows that all processes share: ``lucyd:ratelimit:...``, lists of the times of what was done."""

import hashlib
from datetime import timedelta
from functools import partial

from redis.exceptions import ResponseError

from shared.adapters.redis.connection import Ask, Redis, send_all
from shared.errors import TryLater
from shared.messages import routes
from shared.ports.windows import Place

ANSWERS_WITHIN = timedelta(milliseconds=100)

# The server's clock is everybody's. A list holds no more than the limit, and costs the same however long it is: what
# is too old is taken off its head, a hundred at a time at most. A time that lies ahead means that the clock was set
# back, and all of it is forgiven.
TAKE = b"""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit, per = tonumber(ARGV[1]), tonumber(ARGV[2])
local function oldest() return tonumber(redis.call('LINDEX', KEYS[1], 0)) end
local first = oldest()
if first and first > now then
  redis.call('DEL', KEYS[1])
  first = nil
end
for _ = 1, 100 do
  if not first or first > now - per then break end
  redis.call('LPOP', KEYS[1])
  first = oldest()
end
local count = redis.call('LLEN', KEYS[1])
local taken = count < limit or (first and first <= now - per)
if taken then
  redis.call('RPUSH', KEYS[1], now)
  redis.call('PEXPIRE', KEYS[1], per)
  count = count + 1
end
return {taken and 1 or 0, limit - count, math.max(first or now, now - per) + per - now}
"""
_SHA = hashlib.sha1(TAKE, usedforsecurity=False).hexdigest()


class RedisWindows:
    """``Windows`` of the ports; ``ask`` is the way that requests take."""

    def __init__(self, client: Redis, *, ask: Ask | None = None, within: timedelta = ANSWERS_WITHIN) -> None:
        self._ask = ask or partial(send_all, client)
        self._within = within

    async def take(self, name: str, *, limit: int, per: timedelta) -> Place:
        """See ``Windows.take``."""
        words = (1, routes.rate_limit(name), limit, round(per.total_seconds() * 1000))
        (reply,) = await self._ask([("EVALSHA", _SHA, *words)], self._within)
        if isinstance(reply, ResponseError):
            # A server that was started anew does not know the script yet.
            (reply,) = await self._ask([("EVAL", TAKE, *words)], self._within)
        if isinstance(reply, ResponseError):
            raise TryLater("Redis refused to count", after=0.5) from reply
        taken, left, milliseconds = (int(each) for each in reply)
        return Place(bool(taken), max(0, left), timedelta(milliseconds=max(0, milliseconds)))
