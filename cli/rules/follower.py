"""Where a client stands in the events of its run."""

from shared.messages.run_events import RunEvent, id_order


class Follower:
    """Remembers what was seen, so that a stream can be taken up again and nothing is told twice."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.last_id: str | None = None

    def takes(self, event: RunEvent) -> bool:
        """Whether this event is news; then it counts as seen."""
        try:
            order = id_order(event.id)
        except ValueError:
            return False  # not of this protocol; it could never be asked for again either
        if self.last_id is not None and order <= id_order(self.last_id):
            return False
        self.last_id = event.id
        if self.run_id is None:
            self.run_id = str(event.data.get("run_id") or "") or None
        return True
