"""Which models an agent has, and what it takes to call them."""

from collections.abc import Callable
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from shared.errors import ConfigError
from shared.runtime.configuration.ollama import ask_ollama, chat_model, local_address
from shared.runtime.settings import Configuration, load_configuration

SECRET = "key-of-the-vendor"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(
    tmp_path: Path,
    text: str = "",
    find_ollama: Callable[[], str | None] = lambda: None,
    files: dict[str, str] | None = None,
    **environ: str,
) -> Configuration:
    config = tmp_path / "lucyd.toml"
    config.write_text(text, encoding="utf-8")
    for name, content in (files or {}).items():
        (tmp_path / "providers.d").mkdir(exist_ok=True)
        (tmp_path / "providers.d" / f"{name}.toml").write_text(content, encoding="utf-8")
    return load_configuration(config, {"HOME": str(tmp_path), **environ}, find_ollama=find_ollama)


def never() -> str | None:
    raise AssertionError("a configured agent must not go looking for a server")


@pytest.mark.parametrize(("variable", "provider"), [("ANTHROPIC_API_KEY", "anthropic"), ("OPENAI_API_KEY", "openai")])
def test_a_key_in_the_environment_is_enough(variable: str, provider: str, tmp_path: Path) -> None:
    """Export one variable, start, talk."""
    found = load(tmp_path, "", never, None, **{variable: SECRET})
    primary = found.models["primary"]
    assert (primary.provider, primary.api_key, primary.base_url) == (provider, SECRET, None)
    assert min(primary.rates.input, primary.rates.output, primary.rates.cache_read, primary.rates.cache_write) > 0
    assert found.models_origin == f"providers.d/{provider}.toml, because {variable} is set"
    assert found.warnings == ()


def test_the_names_of_the_original_are_asked_first(tmp_path: Path) -> None:
    """An agent's own key is billed apart from that of the shell it was started from."""
    found = load(tmp_path, LUCYD_ANTHROPIC_KEY="own", ANTHROPIC_API_KEY="shell", OPENAI_API_KEY="other")
    assert (found.models["primary"].provider, found.models["primary"].api_key) == ("anthropic", "own")


def test_a_vendors_address_can_be_moved_by_its_usual_variable(tmp_path: Path) -> None:
    """Proxies and test servers are set up this way everywhere."""
    found = load(tmp_path, ANTHROPIC_API_KEY=SECRET, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert found.models["primary"].base_url == "http://127.0.0.1:9"


def test_any_server_can_be_named_by_variables(tmp_path: Path) -> None:
    """llama-server, vLLM, a gateway: an address and a name."""
    found = load(tmp_path, LUCYD_MODEL="m", LUCYD_MODEL_BASE_URL="http://127.0.0.1:9/v1", LUCYD_MODEL_KEY="k")
    primary = found.models["primary"]
    assert (primary.provider, primary.model, primary.base_url, primary.api_key) == (
        "openai",
        "m",
        "http://127.0.0.1:9/v1",
        "k",
    )
    with pytest.raises(ConfigError, match="LUCYD_MODEL_BASE_URL must be text that is empty or begins with http"):
        load(tmp_path, LUCYD_MODEL="m", LUCYD_MODEL_BASE_URL="localhost:9")


def test_a_local_ollama_is_used_when_nothing_else_is_there(tmp_path: Path) -> None:
    """Free, private, and already running on many machines."""
    primary = load(tmp_path, find_ollama=lambda: "qwen3:8b").models["primary"]
    assert (primary.model, primary.base_url, primary.api_key) == ("qwen3:8b", "http://127.0.0.1:11434/v1", None)
    moved = load(tmp_path, find_ollama=lambda: "qwen3:8b", OLLAMA_HOST="localhost:9999").models["primary"]
    assert moved.base_url == "http://localhost:9999/v1"


def test_without_anything_the_offline_provider_answers(tmp_path: Path) -> None:
    """The first start always ends in a conversation."""
    found = load(tmp_path)
    assert (found.models["primary"].provider, found.models["primary"].model) == ("offline", "offline")
    assert found.models["primary"].supports_streaming
    assert "no model is configured" in found.models_origin


def test_models_inherit_the_head_of_their_file_and_a_later_file_wins(tmp_path: Path) -> None:
    """As in the original."""
    first = (
        'type = "openai-compat"\nbase_url = "http://127.0.0.1:9/v1"\ncurrency = "EUR"\nmax_tokens = 100\n'
        '[models.primary]\nmodel = "a"\ncost_per_mtok = [0.1, 0.2, 0.3, 0.4]\n'
        '[models.subagent]\nmodel = "b"\nmax_tokens = 7\n'
    )
    second = 'type = "smoke-local"\n[models.subagent]\nmodel = "c"\nreply_text = "hello"\n'
    found = load(tmp_path, '[providers]\nload = ["one", "two"]', find_ollama=never, files={"one": first, "two": second})
    primary, subagent = found.models["primary"], found.models["subagent"]
    assert (primary.provider, primary.max_tokens, primary.rates.currency) == ("openai", 100, "EUR")
    assert primary.rates.input == Decimal("0.1")
    assert (subagent.provider, subagent.model, subagent.max_tokens) == ("offline", "c", 4096)


def test_inline_models_use_a_type_a_loaded_file_or_change_one_key(tmp_path: Path) -> None:
    """One line in lucyd.toml should not need a file of its own."""
    files = {"near": 'type = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n[models.primary]\nmodel = "a"\n'}
    text = (
        '[providers]\nload = ["near"]\n[models.primary]\nmax_tokens = 9\n'
        '[models.subagent]\nprovider = "near"\nmodel = "b"\n[models.compaction]\nprovider = "offline"\nmodel = "c"\n'
    )
    models = load(tmp_path, text, find_ollama=never, files=files).models
    assert (models["primary"].model, models["primary"].max_tokens) == ("a", 9)
    assert (models["subagent"].base_url, models["subagent"].model) == ("http://127.0.0.1:9/v1", "b")
    assert models["compaction"].provider == "offline"


def test_a_missing_provider_file_is_a_warning(tmp_path: Path) -> None:
    """As in the original; the rest still starts."""
    found = load(tmp_path, '[providers]\nload = ["absent"]', files={"other": ""})
    assert found.models["primary"].provider == "offline"
    assert any("providers.d/absent.toml: there is no such provider file" in each for each in found.warnings)
    assert any("no configured model can be primary; instead: the offline provider" in each for each in found.warnings)


def test_a_model_without_its_key_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """One vendor's missing key must not take down the others."""
    found = load(tmp_path, '[providers]\nload = ["anthropic"]', OPENAI_API_KEY=SECRET)
    assert found.models["primary"].provider == "openai"
    assert any(
        "models.primary is left out, because LUCYD_ANTHROPIC_KEY or ANTHROPIC_API_KEY is not set" in each
        for each in found.warnings
    )


def test_a_server_of_ones_own_needs_no_key_and_gets_no_vendors_key(tmp_path: Path) -> None:
    """A key for OpenAI must not travel to whatever listens elsewhere."""
    file = 'type = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n[models.primary]\nmodel = "a"\n'
    assert (
        load(tmp_path, '[providers]\nload = ["f"]', files={"f": file}, OPENAI_API_KEY=SECRET).models["primary"].api_key
        is None
    )
    named = f'api_key_env = "MY_KEY"\n{file}'
    assert load(tmp_path, '[providers]\nload = ["f"]', files={"f": named}, MY_KEY="k").models["primary"].api_key == "k"


def test_rates_are_exact_and_missing_ones_are_free_with_a_warning(tmp_path: Path) -> None:
    """Money is counted in decimals; 0.1 must be 0.1, and what is not counted must be known."""
    text = '[models.primary]\ntype = "anthropic"\nmodel = "m"\ncost_per_mtok = [3, 0.1, 0.30]\n'
    found = load(tmp_path, text, ANTHROPIC_API_KEY=SECRET)
    rates = found.models["primary"].rates
    assert (rates.input, rates.output, rates.cache_read, rates.cache_write) == (
        Decimal(3),
        Decimal("0.1"),
        Decimal("0.30"),
        Decimal(0),
    )
    assert found.warnings == (
        "lucyd.toml: models.primary.cost_per_mtok has no rate for cache_write, so such tokens are counted as free",
    )


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        ("", "disabled"),
        ("thinking_enabled = true", "budgeted"),
        ('thinking_enabled = true\nthinking_mode = "adaptive"', "adaptive"),
        ('thinking_enabled = true\nthinking_mode = "disabled"', "disabled"),
    ],
)
def test_the_mode_of_thinking_wins_over_the_older_flag(lines: str, mode: str, tmp_path: Path) -> None:
    """Files of both ages say it."""
    text = f'[models.primary]\ntype = "offline"\nmodel = "m"\n{lines}\n'
    assert load(tmp_path, text).models["primary"].thinking_mode == mode


def test_embeddings_may_stand_in_the_memory_section(tmp_path: Path) -> None:
    """As in the earliest files."""
    text = '[models.primary]\ntype = "offline"\nmodel = "m"\n[memory]\nembedding_model = "e"\n'
    found = load(tmp_path, text, OPENAI_API_KEY=SECRET)
    assert (found.models["embeddings"].model, found.models["embeddings"].api_key) == ("e", SECRET)


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("localhost:1234", "http://localhost:1234"),
        ("http://127.0.0.1:1234/", "http://127.0.0.1:1234"),
        ("[::1]:1234", "http://[::1]:1234"),
        (":1234", "http://127.0.0.1:1234"),
        ("192.168.1.5:11434", None),
        ("https://127.0.0.1", None),
        ("127.0.0.1:port", None),
    ],
)
def test_ollama_is_only_looked_for_on_this_machine(setting: str, address: str | None) -> None:
    """Nobody expects a start to send requests into the network."""
    assert local_address({"OLLAMA_HOST": setting}) == address


class _Tags(BaseHTTPRequestHandler):
    answer = b'{"models": [{"name": "nomic-embed-text:latest"}, {"name": "qwen3:8b"}]}'
    hold: Event | None = None

    def do_GET(self) -> None:
        if self.hold:
            self.hold.wait(5)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _serve(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


def test_ollama_tells_its_newest_model_that_can_talk() -> None:
    """An embedding model would answer nothing."""
    server = _serve(_Tags)
    try:
        assert ask_ollama(f"http://127.0.0.1:{server.server_port}") == "qwen3:8b"
    finally:
        server.shutdown()
        server.server_close()


def test_an_ollama_that_does_not_answer_delays_the_start_only_briefly() -> None:
    """A hanging server must not hang us."""
    release = Event()
    server = _serve(type("Hanging", (_Tags,), {"hold": release}))
    try:
        assert ask_ollama(f"http://127.0.0.1:{server.server_port}") is None
    finally:
        release.set()
        server.shutdown()
        server.server_close()


def test_nobody_listening_means_no_ollama() -> None:
    """The usual case."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Tags)
    port = server.server_port
    server.server_close()
    assert ask_ollama(f"http://127.0.0.1:{port}") is None


@pytest.mark.parametrize("answer", [None, [], {}, {"models": None}, {"models": [1, {"name": ""}, {"name": 5}]}])
def test_a_strange_answer_names_no_model(answer: object) -> None:
    """Something else may listen on that port."""
    assert chat_model(answer) is None
