"""What starts a Lucyd on one machine."""

import shared.runtime.lean  # noqa: F401 - before anything else; it says why
