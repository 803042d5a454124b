"""The part of the configuration that the consolidator needs."""

from dataclasses import dataclass, field

from shared.runtime.settings import Configuration


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    min_messages: int

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed."""
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            min_messages=configuration.memory.consolidation.min_messages,
        )
