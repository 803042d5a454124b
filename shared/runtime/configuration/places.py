"""Where things lie: lucyd.toml, .env, the data directory, what the project ships."""

from collections.abc import Mapping
from pathlib import Path

from shared.runtime.configuration.findings import Findings
from shared.runtime.configuration.reading import expanded

PROJECT = Path(__file__).resolve().parents[3]
CONFIG_NAME = "lucyd.toml"
ENV_NAME = ".env"


def home_of(environ: Mapping[str, str]) -> Path:
    """The home directory that ``~`` stands for."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def data_dir_before_config(environ: Mapping[str, str]) -> Path:
    """The data directory as far as it is known before any file was read."""
    home = home_of(environ)
    return expanded(environ.get("LUCYD_DATA_DIR") or "~/.lucyd", home).absolute()


def find_config(config_path: Path | None, environ: Mapping[str, str], findings: Findings) -> Path | None:
    """The lucyd.toml to use; ``None`` when there is none. A file that was asked for must exist (reported)."""
    home = home_of(environ)
    asked, by = config_path, "--config"
    if asked is None and environ.get("LUCYD_CONFIG"):
        asked, by = Path(environ["LUCYD_CONFIG"]), "LUCYD_CONFIG"
    if asked is not None:
        path = expanded(str(asked), home).absolute()
        if _is_there(path, findings) and path.is_file():
            return path
        findings.error(
            f"{by}: there is no file {path}; name an existing lucyd.toml, or leave it out to use the defaults"
        )
        return None
    candidates = (Path.cwd() / CONFIG_NAME, data_dir_before_config(environ) / CONFIG_NAME)
    return next((each for each in candidates if _is_there(each, findings) and each.is_file()), None)


def find_dotenv(config_file: Path | None, environ: Mapping[str, str], findings: Findings) -> Path | None:
    """The .env beside lucyd.toml; without lucyd.toml the one here, else the one in the data directory."""
    folders = (config_file.parent,) if config_file else (Path.cwd(), data_dir_before_config(environ))
    return next((folder / ENV_NAME for folder in folders if _is_there(folder / ENV_NAME, findings)), None)


def _is_there(file: Path, findings: Findings) -> bool:
    """Whether anything of that name is there; a folder that may not be looked into is reported."""
    try:
        return file.exists()
    except PermissionError:
        findings.error(f"the folder {file.parent} can't be read: make it readable for you, or set LUCYD_DATA_DIR")
        return False
