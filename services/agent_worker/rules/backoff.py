"""How long to wait before a model is asked again."""


def pause_before_retry(attempt: int, *, base: float, after: float, chance: float) -> float:
    """Seconds before retry ``attempt`` (from 0): base x 2^n x a factor in 0.5..1.5, and not less than asked for.

    ``chance`` is uniform in 0..1; the factor keeps many workers from coming back at once.
    """
    return float(max(after, base * 2**attempt * (0.5 + chance)))
