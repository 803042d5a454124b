"""The part of the configuration that the scheduler needs."""

from dataclasses import dataclass, field
from datetime import timedelta

from services.scheduler.actions.retain import Kept
from shared.runtime.settings import Configuration


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    stream_ttl: timedelta
    result_ttl: timedelta
    kept: Kept

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed."""
        retention = configuration.retention
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            stream_ttl=timedelta(seconds=configuration.run.stream_ttl_seconds),
            result_ttl=timedelta(seconds=configuration.run.result_ttl_seconds),
            kept=Kept(
                streams=timedelta(hours=retention.streams_hours),
                events=_days(retention.events_days),
                deliveries=_days(retention.deliveries_days),
                attachments=_days(retention.attachments_days),
                runs=_days(retention.runs_days),
                costs_months=configuration.metering.retention_months,
            ),
        )


def _days(number: float) -> timedelta | None:
    return timedelta(days=number) if number else None
