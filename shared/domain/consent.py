"""Whether a person's text allows what they were asked about. Only a plain yes does."""

import re

YES = frozenset(
    {
        "yes", "y", "yep", "yeah", "yes please", "ok", "okay", "sure", "allow", "allowed", "approve", "approved", "go",
        "go ahead", "do it", "please do", "confirm", "confirmed", "ja", "ja bitte", "oui", "si", "sí", "sim", "da",
    }
)  # fmt: skip
"""Words that mean nothing else. A sentence that merely begins with one may go on with a but."""

NOISE = re.compile(r"[\s.!,]+")


def says_yes(text: str) -> bool:
    """Tell a plain yes; everything else counts as no, and its words are passed on to the model."""
    stripped = text.strip()
    if stripped in {"\N{THUMBS UP SIGN}", "\N{WHITE HEAVY CHECK MARK}"}:
        return True
    # No yes has more than two words; whatever follows the first three pieces is not looked at.
    words = [word for word in NOISE.split(stripped, maxsplit=3) if word]
    return " ".join(words).lower() in YES
