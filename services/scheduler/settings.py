"""The part of the configuration that the scheduler needs."""

from dataclasses import dataclass, field
from datetime import timedelta
from zoneinfo import ZoneInfo

from services.scheduler.actions.retain import Kept
from services.scheduler.rules.firing import Manner
from shared.actions.keep_door import Bounds
from shared.ports.webhooks import CALLBACK
from shared.runtime.settings import Configuration


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    stream_ttl: timedelta
    result_ttl: timedelta
    kept: Kept
    manner: Manner
    bounds: Bounds

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
            manner=Manner(
                zone=ZoneInfo(configuration.user.timezone),
                deadline=timedelta(seconds=configuration.run.deadline_seconds),
                capacity=configuration.behavior.queue_capacity,
                webhook=CALLBACK if configuration.http.callback_url else None,
            ),
            bounds=Bounds(configuration.limits.open_runs_per_principal, configuration.limits.open_runs),
        )


def _days(number: float) -> timedelta | None:
    return timedelta(days=number) if number else None
