"""What the launcher says once everything runs."""

import shlex
import sys
from pathlib import Path

from shared.domain.provider import ModelSpec


def greeting(http: str, *, token_file: Path | None, data_dir: Path, model: ModelSpec | None, here: Path) -> str:
    """Return the text: where everything is, which model answers, and two ways to talk.

    ``token_file`` None means that the token came with the configuration. ``here`` is the folder the person is in.
    """
    token = "$LUCYD_HTTP_TOKEN" if token_file is None else f"$(cat {shlex.quote(str(token_file))})"
    lucyd = _seen_from(here, Path(sys.executable).with_name("lucyd"))
    lines = [
        "",
        f"Lucyd is ready: {http}",
        f"  token   {'from the configuration (LUCYD_HTTP_TOKEN)' if token_file is None else token_file}",
        f"  data    {data_dir}",
        f"  logs    {data_dir / 'logs'}",
        *_model_lines(model),
        "",
        f"  curl -s {http}/api/v1/chat -H \"Authorization: Bearer {token}\" -H 'Content-Type: application/json' \\",
        '    -d \'{"message": "Hello, who are you?"}\'',
        f"  {shlex.quote(str(lucyd))} chat",
        "",
        "Ctrl-C ends everything.",
    ]
    return "\n".join(lines)


def _model_lines(model: ModelSpec | None) -> list[str]:
    if model is not None and model.provider != "offline":
        return [f"  model   {model.model} ({model.provider})"]
    return [
        "  model   offline: no model is configured, and a small built-in stand-in answers.",
        "          To configure one, set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama,",
        "          or name a provider in lucyd.toml; then start again.",
    ]


def _seen_from(here: Path, file: Path) -> Path:
    return file.relative_to(here) if file.is_relative_to(here) else file
