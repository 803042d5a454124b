"""The six processes."""

import shared.runtime.lean  # noqa: F401 - before anything else; it says why
