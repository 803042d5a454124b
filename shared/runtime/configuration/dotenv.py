"""The ``.env`` file: a few lines of ``KEY=value``, no more language than that."""

_QUOTES = ("'", '"')


def parse_dotenv(text: str) -> dict[str, str]:
    """Read ``KEY=value`` lines.

    Lines that begin with ``#`` and lines without ``=`` are passed over, ``export`` before the name is tolerated, and
    one pair of equal quotes around the value is taken off. Nothing is expanded, and ``#`` inside a value belongs to
    it: a password must arrive as it was written.
    """
    values: dict[str, str] = {}
    for raw in text.removeprefix("\ufeff").splitlines():
        line = raw.strip()
        if line.startswith("#") or "=" not in line:
            continue
        name, _, value = line.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if name:
            values[name] = _unquoted(value.strip())
    return values


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in _QUOTES:
        return value[1:-1]
    return value
