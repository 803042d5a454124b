"""The part of the configuration that the gateway needs."""

from dataclasses import dataclass, field
from datetime import timedelta

from services.gateway.edge.chat_api import ChatManner
from shared.errors import ConfigError
from shared.runtime.settings import Configuration

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    host: str
    port: int
    token: str | None = field(repr=False)
    agent: str
    models: tuple[str, ...]
    primary: str
    context_limit: int
    chat: ChatManner
    stream_ttl: timedelta

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed. Raises ``ConfigError`` when it would listen beyond this machine without a token."""
        http, run = configuration.http, configuration.run
        if configuration.http_token is None and http.host not in LOOPBACK:
            raise ConfigError(
                [f"http.host is {http.host}, but no token is set; set {http.token_env}, or listen on 127.0.0.1."]
            )
        primary = configuration.models["primary"]
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            host=http.host,
            port=http.port,
            token=configuration.http_token,
            agent=configuration.agent.name,
            models=tuple(sorted(spec.model for spec in configuration.models.values())),
            primary=primary.model,
            context_limit=primary.max_context_tokens,
            chat=ChatManner(
                wait=timedelta(seconds=run.wait_seconds),
                body_bytes=http.max_body_bytes,
                deadline=timedelta(seconds=run.deadline_seconds),
                capacity=configuration.behavior.queue_capacity,
                key_lives=timedelta(hours=configuration.retention.idempotency_hours),
            ),
            stream_ttl=timedelta(seconds=run.stream_ttl_seconds),
        )
