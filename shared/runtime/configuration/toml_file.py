"""Read one TOML file; what is wrong with it as a file is told in one sentence."""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

from shared.runtime.configuration.findings import Findings


def read_toml(path: Path, name: str, findings: Findings) -> dict[str, Any] | None:
    """The file's tables, numbers with a point as ``Decimal``; ``None`` when it can't be read (reported)."""
    try:
        # utf-8-sig: editors on Windows put a mark at the beginning that TOML does not allow.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        findings.error(f"{name}: this is not valid TOML: {error}")
    except UnicodeDecodeError:
        findings.error(f"{name}: the file is not UTF-8 text; save it as UTF-8")
    except OSError as error:
        findings.error(f"{name}: the file can't be read: {error.strerror}")
    return None
