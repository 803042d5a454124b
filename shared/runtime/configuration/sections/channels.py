"""How the agent is reached: ``[channel]``, ``[telegram]``, ``[email]``, ``[bridges]``, ``[http]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from shared.runtime.configuration.kinds import (
    Address,
    Count,
    Number,
    Port,
    PortOrNone,
    Positive,
    Seconds,
    Share,
    Variable,
)


@dataclass(frozen=True, slots=True)
class Telegram:
    """``[telegram]``, and ``[channel.telegram]`` of older files. Size 0 means no limit, an empty list everybody."""

    token_env: Variable = "LUCYD_TELEGRAM_TOKEN"  # noqa: S105  (a variable's name)
    allow_from: tuple[int, ...] = ()
    allowed_senders: tuple[int, ...] = ()
    contacts: Mapping[str, int] = field(default_factory=dict)
    text_chunk_limit: Positive = 4000
    poll_timeout: Seconds = 30.0
    http_timeout: Seconds = 45.0
    http_connect_timeout: Seconds = 10.0
    reconnect_initial: Seconds = 1.0
    reconnect_max: Seconds = 10.0
    reconnect_factor: Number = 2.0
    reconnect_jitter: Share = 0.2
    media_group_delay: Seconds = 0.5
    max_attachment_bytes: Count = 0
    download_dir: Path | None = None

    @property
    def allowed(self) -> frozenset[int]:
        """Numeric ids that may write to the agent; empty means everybody."""
        return frozenset(self.allow_from) | frozenset(self.allowed_senders)


@dataclass(frozen=True, slots=True)
class Channel:
    """``[channel]`` of older files; ``telegram`` and ``debounce_ms`` hold when the newer places are silent."""

    type: Literal["telegram", "cli", "http", ""] = ""
    debounce_ms: Count = 500
    telegram: Telegram = field(default_factory=Telegram)


@dataclass(frozen=True, slots=True)
class Email:
    """``[email]``. Port 0 means the usual one; ``user_address`` empty means the first allowed sender."""

    imap_host: str = ""
    smtp_host: str = ""
    user_env: Variable = "LUCYD_EMAIL_USER"
    password_env: Variable = "LUCYD_EMAIL_PASSWORD"  # noqa: S105  (a variable's name)
    folder: str = "INBOX"
    poll_interval: Seconds = 60.0
    from_address: str = ""
    imap_port: PortOrNone = 0
    smtp_port: PortOrNone = 0
    security: Literal["ssl", "starttls"] = "ssl"
    allowed_senders: tuple[str, ...] = ()
    user_address: str = ""


@dataclass(frozen=True, slots=True)
class Bridges:
    """``[bridges]``: where messages go that the agent sends by itself."""

    primary: Literal["", "telegram", "email"] = ""


@dataclass(frozen=True, slots=True)
class Http:
    """``[http]``. Limits of rates hold for ``rate_window`` seconds, 0 is none; sizes are bytes."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 8100
    token_env: Variable = "LUCYD_HTTP_TOKEN"  # noqa: S105  (a variable's name)
    trust_localhost: bool = False
    max_body_bytes: Positive = 16_777_216
    max_attachments: Positive = 10
    max_attachment_bytes: Positive = 10_485_760
    max_streams: Positive = 2000
    slow_client_seconds: Seconds = 20.0
    rate_limit: Count = 60_000
    rate_window: Positive = 60
    status_rate_limit: Count = 60_000
    failed_login_limit: Count = 10
    access_log: bool = True
    callback_url: Address = ""
    callback_token_env: Variable = ""
    callback_secret_env: Variable = ""
    callback_timeout: Seconds = 10.0
    drain_seconds: Seconds = 18.0
    download_dir: Path | None = None
    rate_limit_cleanup_threshold: Count = 1000
