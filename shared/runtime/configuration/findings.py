"""What loading found out: errors that stop the start, warnings that do not, keys nobody knows."""


class Findings:
    """Collects every finding once, in the order of discovery."""

    def __init__(self) -> None:
        self._errors: dict[str, None] = {}
        self._warnings: dict[str, None] = {}
        self._unknown: dict[str, None] = {}

    def error(self, sentence: str) -> None:
        """Keep a mistake of the operator; all of them are told at once."""
        self._errors[sentence] = None

    def warning(self, sentence: str) -> None:
        """Keep something that works, yet probably not as meant."""
        self._warnings[sentence] = None

    def unknown(self, key: str) -> None:
        """Keep the path of a key that has no meaning here."""
        self._unknown[key] = None

    @property
    def errors(self) -> tuple[str, ...]:
        """All mistakes."""
        return tuple(self._errors)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings."""
        return tuple(self._warnings)

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """All keys nobody knows."""
        return tuple(self._unknown)
