"""What the launcher says once everything runs."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from shared.domain.provider import ModelSpec


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where the bearer token is: in ``file``, else in ``variable``, which ``dotenv`` sets where the shell does not."""

    file: Path | None
    variable: str = "LUCYD_HTTP_TOKEN"
    dotenv: Path | None = None

    @property
    def told(self) -> str:
        """Half a line about it."""
        if self.file is not None:
            return str(self.file)
        if self.dotenv is not None:
            return f"{self.variable} is set in {self.dotenv}"
        return f"from the environment ({self.variable})"

    @property
    def in_shell(self) -> str:
        """How a shell writes it."""
        return f"${self.variable}" if self.file is None else f"$(cat {shlex.quote(str(self.file))})"


def greeting(http: str, *, token: TokenPlace, data_dir: Path, model: ModelSpec | None, here: Path) -> str:
    """Return the text: where everything is, which model answers, and two ways to talk.

    ``here`` is the folder the person is in.
    """
    lucyd = _seen_from(here, Path(sys.executable).with_name("lucyd"))
    lines = [
        "",
        f"Lucyd is ready: {http}",
        f"  token   {token.told}",
        f"  data    {data_dir}",
        f"  logs    {data_dir / 'logs'}",
        *_model_lines(model),
        "",
        f'  curl -s {http}/api/v1/chat -H "Authorization: Bearer {token.in_shell}"'
        " -H 'Content-Type: application/json' \\",
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
