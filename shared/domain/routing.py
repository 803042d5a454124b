"""Which model answers a message."""

from collections.abc import Collection, Mapping

PRIMARY = "primary"
VISION = "vision"


def route_model(source: str, *, routing: Mapping[str, str], models: Collection[str], has_image: bool = False) -> str:
    """The role of the model for a message that came from ``source`` (``telegram``, ``http``, ``cli``, ``system``).

    ``routing`` maps sources to roles, ``models`` are the roles that are loaded. A source without a route, and a route
    to a model that is not loaded, give ``primary``. An image goes to ``vision`` where that is loaded.
    """
    if has_image and VISION in models:
        # Asked first: a model that can't see would answer about a picture it never got.
        return VISION
    target = routing.get(source, PRIMARY)
    return target if target in models else PRIMARY
