"""The part of the configuration that the Telegram bridge needs."""

from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from services.telegram_bridge.rules.backoff import Backoff
from services.telegram_bridge.rules.message import Manner
from services.telegram_bridge.rules.people import People
from shared.actions.keep_door import Bounds
from shared.errors import ConfigError
from shared.ports.webhooks import CALLBACK
from shared.runtime.settings import Configuration

API_URL = "https://api.telegram.org"
API_URL_VARIABLE = "LUCYD_TELEGRAM_API_URL"


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    token: str | None = field(repr=False)
    token_variable: str
    api_url: str
    timeout: timedelta
    connect_timeout: timedelta
    backoff: Backoff
    poll: timedelta
    people: People
    manner: Manner
    bounds: Bounds
    stream_ttl: timedelta

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed. Raises ``ConfigError`` for an API address that can't be called."""
        telegram = configuration.telegram
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            token=(configuration.telegram_token or "").strip() or None,
            token_variable=telegram.token_env or "LUCYD_TELEGRAM_TOKEN",
            api_url=_address(configuration.environment.get(API_URL_VARIABLE) or API_URL),
            timeout=timedelta(seconds=telegram.http_timeout or 45.0),
            connect_timeout=timedelta(seconds=telegram.http_connect_timeout or 10.0),
            backoff=Backoff(
                timedelta(seconds=telegram.reconnect_initial),
                timedelta(seconds=telegram.reconnect_max),
                telegram.reconnect_factor,
                telegram.reconnect_jitter,
            ),
            poll=timedelta(seconds=telegram.poll_timeout),
            people=People(telegram.allowed, telegram.contacts),
            manner=Manner(
                deadline=timedelta(seconds=configuration.run.deadline_seconds),
                capacity=configuration.behavior.queue_capacity,
                webhook=CALLBACK if configuration.http.callback_url else None,
            ),
            bounds=Bounds(configuration.limits.open_runs_per_principal, configuration.limits.open_runs),
            stream_ttl=timedelta(seconds=configuration.run.stream_ttl_seconds),
        )


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError([f"{API_URL_VARIABLE} must begin with http:// or https:// and name a host"])
    return text
