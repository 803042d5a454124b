"""What a command of the agent sees of the operator's secrets: nothing, by whatever name."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx2
import orjson
import pytest

from tests.scripted_model_server import Say, ScriptedModelServer, Use
from tests.stack import open_stack, text_of

PROVIDER = """
type = "openai"
base_url = "{base_url}"
[models.primary]
model = "scripted-1"
api_key_env = "CANARY_A"
cost_per_mtok = [0, 0]
"""


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A model that asks for the environment of commands, and then for what the shell itself was given."""
    command = "env; echo; cat /proc/self/environ | tr '\\0' '\\n'"
    with ScriptedModelServer({"look": [Use([("exec", {"command": command})]), Say("Seen.")]}).in_thread() as server:
        yield server


def test_no_secret_is_in_the_environment_of_a_command(
    models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """Keys in ``.env`` under names of the operator's own, tokens, addresses, and copies of them."""
    (tmp_path / "providers.d").mkdir()
    (tmp_path / "providers.d" / "mine.toml").write_text(PROVIDER.format(base_url=models.base_url("openai")))
    (tmp_path / ".env").write_text("CANARY_A=sk-canary-of-the-model\nPLAIN=canary-of-dotenv\n")
    toml = (
        '[agent]\nname = "Testbert"\n[providers]\nload = ["mine"]\n[http]\ntoken_env = "CANARY_B"\n'
        '[telegram]\ntoken_env = "CANARY_C"\n[plugins.weather]\napi_key_env = "CANARY_D"\n'
    )
    with open_stack(tmp_path, database_url, redis_url, toml) as stack:
        stack.environment |= {
            "CANARY_B": "canary-token-of-http",
            "CANARY_C": "",
            "CANARY_D": "canary-of-a-plugin",
            "COPY_OF_MODEL": "Bearer sk-canary-of-the-model",
            "COPY_OF_HTTP": "canary-token-of-http",
            "SEEN": "this one is no secret",
        }
        gateway = stack.gateway()
        (worker,) = stack.workers()
        reply = httpx2.post(
            f"{gateway.url}/api/v1/chat",
            json={"message": "[[script:look]]"},
            headers={"Authorization": "Bearer canary-token-of-http"},
            timeout=30,
        )
        assert reply.json()["reply"] == "Seen.", reply.text + text_of(worker)
        said = orjson.dumps(models.requests[-1]["body"]).decode()
        assert "SEEN=this one is no secret" in said
        assert f"PATH={os.environ['PATH']}" in said
        for canary in ("canary", database_url, redis_url, "LUCYD_", "CANARY_"):
            assert canary not in said, canary
        assert "canary" not in text_of(worker)
