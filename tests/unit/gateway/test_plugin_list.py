"""Workers tell of their plugins; the gateway makes one list of it."""

import json
from typing import Any

from services.gateway.rules.plugin_list import plugin_list


def worker(*plugins: Any) -> dict[str, str]:
    return {"service": "agent_worker", "plugins": json.dumps(plugins)}


def plugin(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": "loaded", "reason": "", "tools": [], "preprocessors": [], "notes": [], **more}


def test_all_workers_are_counted() -> None:
    """The same files lie before each of them."""
    tts = plugin("tts", tools=["tts"], notes=["x: why not"])
    (told,) = plugin_list([worker(tts), worker(tts)])
    assert told == {
        "name": "tts",
        "configured": True,
        "backend": "",
        "state": "loaded",
        "reason": "",
        "tools": ["tts"],
        "preprocessors": [],
        "notes": ["x: why not"],
        "loaded_by": 2,
        "failed_in": 0,
    }


def test_a_failure_in_one_worker_is_not_hidden_by_the_others() -> None:
    """One of them stands on a machine without a library."""
    failed = plugin("tts", state="failed", reason="there is no module 'x' here")
    (told,) = plugin_list([worker(plugin("tts", tools=["tts"])), worker(failed)])
    assert (told["state"], told["configured"], told["reason"]) == ("failed", False, "there is no module 'x' here")
    assert (told["loaded_by"], told["failed_in"]) == (1, 1)


def test_what_is_no_list_of_plugins_is_passed_over() -> None:
    """Other services have none, and older code tells of none."""
    odd = [{}, {"plugins": ""}, {"plugins": "no json"}, {"plugins": "7"}, worker("x", 7, {"no": "name"})]
    assert plugin_list(odd) == []
    assert [each["name"] for each in plugin_list([*odd, worker(plugin("b"), plugin("a"))])] == ["a", "b"]
