"""What was told of runs, without a Postgres."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.adapters.inmemory.tables import Tables, as_json
from shared.messages.run_events import ACCEPTED_ID, accepted_event, id_order, terminal_id
from shared.messages.step_events import events_of_step
from shared.ports.history import ToldSoFar
from shared.ports.runs import FinishedRun


class InMemoryTranscripts:
    """``Transcripts`` of the ports, and of ``History`` what is answered from the same rows."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def told(self, run: UUID, *, after: str) -> ToldSoFar:
        """See ``Transcripts.told``."""
        await asyncio.sleep(0)
        row = self._tables.runs.get(run)
        if row is None:
            return ToldSoFar()
        events = [accepted_event(run, row.conversation)] if id_order(after) < id_order(ACCEPTED_ID) else []
        steps = sorted((epoch, step) for its, step, epoch in self._tables.run_steps if its == run)
        for epoch, step in steps:
            events += events_of_step(epoch, as_json(self._tables.run_steps[run, step, epoch]), after=after)
        if row.finished_at is None:
            return ToldSoFar(events, row.keep)
        end = row.terminal or terminal_id(row.epoch)
        return ToldSoFar(events, end, FinishedRun(run, row.conversation, end, as_json(row.outcome or {})))

    async def moved(self, known: Mapping[UUID, str]) -> Mapping[UUID, str]:
        """See ``Transcripts.moved``."""
        await asyncio.sleep(0)
        rows = [row for run in known if (row := self._tables.runs.get(run)) is not None]
        stands = {row.id: row.keep if row.finished_at is None else "ended" for row in rows}
        return {run: text for run, text in stands.items() if text != known[run]}

    async def said(self, run: UUID) -> Sequence[str]:
        """See ``History.said``."""
        await asyncio.sleep(0)
        rows = [row for row in self._tables.messages if row.run == run and not row.dropped]
        answers = [row.body for row in sorted(rows, key=lambda row: row.ordinal)]
        return [body["text"] for body in answers if body["role"] == "assistant"]
