"""The whole of lucyd.toml, section by section."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.runtime.configuration.sections.agent import Agent, User
from shared.runtime.configuration.sections.behavior import Behavior
from shared.runtime.configuration.sections.channels import Bridges, Channel, Email, Http, Telegram
from shared.runtime.configuration.sections.mcp import Mcp
from shared.runtime.configuration.sections.media import Documents, Media, Stt, Vision
from shared.runtime.configuration.sections.memory import Memory
from shared.runtime.configuration.sections.operation import (
    Conversion,
    Database,
    Fairness,
    Limits,
    Logging,
    Maintain,
    Metering,
    Paths,
    Providers,
    Retention,
    Run,
    Session,
    Worker,
)
from shared.runtime.configuration.sections.tools import Tools


@dataclass(frozen=True, kw_only=True)
class Sections:
    """What the file says, with defaults where it is silent. ``routing`` maps a message's source to a model."""

    agent: Agent = field(default_factory=Agent)
    user: User = field(default_factory=User)
    channel: Channel = field(default_factory=Channel)
    telegram: Telegram = field(default_factory=Telegram)
    email: Email = field(default_factory=Email)
    bridges: Bridges = field(default_factory=Bridges)
    http: Http = field(default_factory=Http)
    providers: Providers = field(default_factory=Providers)
    routing: Mapping[str, str] = field(default_factory=dict)
    database: Database = field(default_factory=Database)
    memory: Memory = field(default_factory=Memory)
    maintain: Maintain = field(default_factory=Maintain)
    session: Session = field(default_factory=Session)
    tools: Tools = field(default_factory=Tools)
    mcp: Mcp = field(default_factory=Mcp)
    behavior: Behavior = field(default_factory=Behavior)
    documents: Documents = field(default_factory=Documents)
    vision: Vision = field(default_factory=Vision)
    stt: Stt = field(default_factory=Stt)
    media: Media = field(default_factory=Media)
    logging: Logging = field(default_factory=Logging)
    metering: Metering = field(default_factory=Metering)
    conversion: Conversion = field(default_factory=Conversion)
    paths: Paths = field(default_factory=Paths)
    worker: Worker = field(default_factory=Worker)
    fairness: Fairness = field(default_factory=Fairness)
    limits: Limits = field(default_factory=Limits)
    run: Run = field(default_factory=Run)
    retention: Retention = field(default_factory=Retention)
