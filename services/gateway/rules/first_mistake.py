"""What is wrong with a request, in one sentence: in words of its sender, and none of the library that checks it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

KINDS: Mapping[str, str] = {
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "null",
}
"""What a value must be, by the error that says it is something else."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """``field`` is written as in ``messages[0].content``, and empty where it is the whole."""

    field: str
    sentence: str


def first_mistake(fault: ValidationError, value: object, says: Mapping[str, str]) -> Mistake:
    """The first thing that is wrong with ``value``; ``says`` has sentences of its own for some fields.

    Where a value may be one of several things, that one is spoken of which it comes nearest to.
    """
    errors = fault.errors(include_url=False, include_input=False)
    if not (head := errors[0]["loc"][:1]):
        return Mistake("", _own_words(errors[0]))
    found = [(_place(error, value), error) for error in errors if error["loc"][:1] == head]
    deepest = max(len(place) for place, _ in found)
    at = next(place for place, _ in found if len(place) == deepest)
    field = _written(at)
    own = says.get(str(head[0]))
    return Mistake(field, own or f'"{field}" {_sentence([error for place, error in found if place == at])}')


def _place(error: ErrorDetails, value: object) -> tuple[str | int, ...]:
    """Where in ``value`` it is. Between the steps that lead there the library names types of its own: no keys."""
    steps: list[str | int] = []
    location = error["loc"]
    for number, step in enumerate(location, start=1):
        if isinstance(step, int):
            steps.append(step)
            value = value[step] if isinstance(value, list) and step < len(value) else None
        elif isinstance(value, dict) and step in value:
            steps.append(step)
            value = value[step]
        elif error["type"] == "missing" and number == len(location):
            steps.append(step)
    if error["type"].startswith("union_tag"):
        steps.append(str(error["ctx"]["discriminator"]).strip("'"))
    return tuple(steps)


def _written(place: Sequence[str | int]) -> str:
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _sentence(errors: Sequence[ErrorDetails]) -> str:
    """Of errors at one place: what is wrong with the value, or of what kind it should be."""
    for error in errors:
        match error["type"]:
            case kind if kind in KINDS:
                continue
            case "missing" | "union_tag_not_found":
                return "field is required"
            case "value_error":
                return _own_words(error)
            case "union_tag_invalid":
                return f"must be {' or '.join(error['ctx']['expected_tags'].rsplit(', ', 1))}"
            case "string_pattern_mismatch":
                return f"must match {error['ctx']['pattern']}"
            case _:
                return error["msg"].replace("Input should be", "must be")
    return "must be " + " or ".join(dict.fromkeys(KINDS[error["type"]] for error in errors))


def _own_words(error: ErrorDetails) -> str:
    return error["msg"].removeprefix("Value error, ")
