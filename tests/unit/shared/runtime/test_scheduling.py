"""Our processes let each other finish."""

import os
import subprocess
import sys

import pytest

from shared.runtime.scheduling import let_others_finish


@pytest.mark.skipif(sys.platform != "linux", reason="others do not know it")
def test_a_service_asks_the_kernel_to_let_others_finish() -> None:
    """As any user may; in a process of its own, for there is no way back."""
    code = (
        "import os; from shared.runtime.scheduling import let_others_finish; let_others_finish(); "
        "print(os.sched_getscheduler(0) == os.SCHED_BATCH)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"


def test_a_system_that_forbids_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox may refuse the call, and the service starts all the same."""

    def refuse(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(os, "SCHED_BATCH", 3, raising=False)
    monkeypatch.setattr(os, "sched_setscheduler", refuse, raising=False)
    monkeypatch.setattr(os, "sched_param", lambda priority: priority, raising=False)
    let_others_finish()
