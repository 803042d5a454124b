"""Which model answers a message."""

from shared.domain.routing import route_model

MODELS = {"primary", "subagent"}
ROUTING = {"system": "subagent", "telegram": "poet"}


def test_a_source_with_a_route_goes_there() -> None:
    """Automated messages are many; they may go to a cheaper model."""
    assert route_model("system", routing=ROUTING, models=MODELS) == "subagent"


def test_a_source_without_a_route_goes_to_primary() -> None:
    """Nobody has to list every source."""
    assert route_model("http", routing=ROUTING, models=MODELS) == "primary"


def test_a_route_to_a_model_that_is_not_loaded_goes_to_primary() -> None:
    """A key that is missing today must not silence a channel."""
    assert route_model("telegram", routing=ROUTING, models=MODELS) == "primary"


def test_an_image_goes_to_the_model_that_sees_whatever_the_route() -> None:
    """The route was chosen for words."""
    assert route_model("system", routing=ROUTING, models=MODELS | {"vision"}, has_image=True) == "vision"
    assert route_model("system", routing=ROUTING, models=MODELS | {"vision"}) == "subagent"


def test_an_image_follows_the_route_where_no_vision_model_is_loaded() -> None:
    """Most people have one model that does both."""
    assert route_model("system", routing=ROUTING, models=MODELS, has_image=True) == "subagent"
