"""The part of the configuration that the gateway needs."""

from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from services.gateway.actions.limit_requests import Limits
from services.gateway.edge.callback import Callback
from services.gateway.edge.intake import ChatManner
from services.gateway.rules.attachments import AttachmentLimits
from services.gateway.rules.webhook_signature import FORM, read_secrets
from shared.actions.keep_door import Bounds
from shared.domain.attachment import ReadableText
from shared.domain.contacts import Contacts
from shared.domain.destination import origin_of, refusal_of
from shared.domain.provider import ModelSpec
from shared.domain.skill import SkillPlace
from shared.errors import ConfigError
from shared.ports.webhooks import CALLBACK
from shared.runtime.configuration.models import EMBEDDINGS
from shared.runtime.settings import Configuration

log = structlog.get_logger(__name__)

LONGEST_DRAIN = timedelta(seconds=20)
"""A process has 25 s in all, and some of them are for the last words."""

NOBODY_NAMED = "user"
"""Whom bridges write for when ``[user] name`` is silent."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``.

    ``of_people``: whom bridges write for, whose conversation notices join, and what is said when answering failed.
    """

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    host: str
    port: int
    token: str | None = field(repr=False)
    agent: str
    of_people: tuple[str, str, str]
    contacts: Contacts
    embedder: ModelSpec | None
    embedding_timeout: timedelta
    idle_minutes: int
    models: tuple[str, ...]
    primary: str
    context_limit: int
    chat: ChatManner
    bounds: Bounds
    limits: Limits
    stream_ttl: timedelta
    most_streams: int
    slow_client: timedelta
    access_log: bool
    callback: Callback | None
    drain: timedelta
    skill_places: tuple[SkillPlace, ...]
    always_on: tuple[str, ...]

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed.

        Raises ``ConfigError`` when it would listen beyond this machine without a token, and for a callback that could
        never be sent.
        """
        http, run = configuration.http, configuration.run
        if configuration.http_token is None and http.host not in LOOPBACK:
            raise no_open_door(f"http.host is {http.host}", http.token_env)
        primary = configuration.models["primary"]
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            host=http.host,
            port=http.port,
            token=configuration.http_token,
            agent=configuration.agent.name,
            idle_minutes=configuration.session.auto_reset.idle_minutes,
            of_people=(
                configuration.user.name or NOBODY_NAMED,
                configuration.behavior.primary_sender or configuration.behavior.notify_target,
                configuration.behavior.error_message,
            ),
            contacts=Contacts.of_telegram(configuration.telegram.contacts),
            embedder=_embedder(configuration),
            embedding_timeout=timedelta(seconds=configuration.memory.embedding_timeout or 15.0),
            models=tuple(sorted(spec.model for spec in configuration.models.values())),
            primary=primary.model,
            context_limit=primary.max_context_tokens,
            chat=ChatManner(
                wait=timedelta(seconds=run.wait_seconds),
                body_bytes=http.max_body_bytes,
                deadline=timedelta(seconds=run.deadline_seconds),
                capacity=configuration.behavior.queue_capacity,
                attachments=AttachmentLimits(http.max_attachments, http.max_attachment_bytes),
                readable=_readable(configuration),
                key_lives=timedelta(hours=configuration.retention.idempotency_hours),
                webhook=CALLBACK if http.callback_url else None,
            ),
            bounds=Bounds(configuration.limits.open_runs_per_principal, configuration.limits.open_runs),
            limits=Limits(
                read=http.status_rate_limit,
                work=http.rate_limit,
                failed_logins=http.failed_login_limit,
                per=timedelta(seconds=http.rate_window),
            ),
            stream_ttl=timedelta(seconds=run.stream_ttl_seconds),
            most_streams=http.max_streams,
            slow_client=timedelta(seconds=http.slow_client_seconds),
            access_log=http.access_log,
            callback=_callback(configuration),
            drain=min(timedelta(seconds=http.drain_seconds), LONGEST_DRAIN),
            skill_places=configuration.skill_places,
            always_on=tuple(configuration.agent.skills.always_on),
        )


def no_open_door(where: str, token_env: str) -> ConfigError:
    """What is said to who would let everybody in."""
    return ConfigError([f"{where}, but no token is set; set {token_env}, or listen on 127.0.0.1."])


def _readable(configuration: Configuration) -> ReadableText:
    documents = configuration.documents
    endings = frozenset(ending.lower() for ending in documents.text_extensions)
    return ReadableText(documents.max_chars if documents.enabled else 0, endings)


def _embedder(configuration: Configuration) -> ModelSpec | None:
    """Raises ``ConfigError`` for a provider that embeds nothing."""
    spec = configuration.models.get(EMBEDDINGS)
    if spec is not None and spec.provider != "openai":
        raise ConfigError([f"models.{EMBEDDINGS}: {spec.provider} has no embeddings; use openai, or none."])
    return spec


def _callback(configuration: Configuration) -> Callback | None:
    http = configuration.http
    if not http.callback_url:
        return None
    token = configuration.secret(http.callback_token_env)
    errors: list[str] = []
    secrets = _signing_secrets(configuration, errors)
    if token is not None and not (token.isascii() and token.isprintable()):
        errors.append(f"{http.callback_token_env} holds characters that no header can carry (a line break, perhaps).")
    if refusal := refusal_of(origin_of(http.callback_url), is_allowed=True):
        errors.append(f"http.callback_url: {refusal}.")
    if errors:
        raise ConfigError(errors)
    if token is None and http.callback_token_env:
        log.warning("callback_without_token", variable=http.callback_token_env)
    return Callback(
        http.callback_url, token, timedelta(seconds=http.callback_timeout), secrets, configuration.agent.name
    )


def _signing_secrets(configuration: Configuration, errors: list[str]) -> tuple[bytes, ...]:
    """A receiver that looks for a signature refuses what has none, so a secret that is missing is a mistake, too."""
    variable = configuration.http.callback_secret_env
    if not variable:
        return ()
    value = configuration.secret(variable)
    if value is None:
        errors.append(f"{variable} is not set, and http.callback_secret_env names it; it holds {FORM}.")
        return ()
    try:
        return read_secrets(value)
    except ValueError as fault:
        errors.append(f"{variable} {fault}.")
        return ()
