"""A request's JSON against its type; what is wrong is said in one sentence, in the original's words if it had any."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.errors import BadInput

FIRST_ONLY: Any = Field(fail_fast=True)
"""Stands at every list of a request: only the first thing that is wrong is told, and a body of megabytes could hold
millions of them."""

NO_OBJECT = "the body must be a JSON object"

Model = TypeVar("Model", bound="RequestBody")


class RequestBody(BaseModel):
    """What a client may send. Fields that nobody knows are left alone, as the original did.

    ``says``: the sentence for a field that can't be taken as it is, where there is a better one than the general.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", regex_engine="python-re")
    says: ClassVar[Mapping[str, str]] = {}


class RequestQuery(RequestBody):
    """What may stand behind the question mark: text that is read as numbers where they are asked for."""

    model_config = ConfigDict(strict=False, frozen=True, extra="ignore", regex_engine="python-re")


def read_as(model: type[Model], value: object) -> Model:
    """The value as this type. Raises ``BadInput`` with the first thing that is wrong."""
    if not isinstance(value, dict):
        raise BadInput(NO_OBJECT)
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        raise BadInput(_sentence(model, fault)) from fault


def _sentence(model: type[RequestBody], fault: ValidationError) -> str:
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    path = first["loc"]
    if not path:
        return first["msg"].removeprefix("Value error, ")
    name = str(path[0])
    if name in model.says:
        return model.says[name]
    where = f'"{_dotted(path)}"'
    match first["type"]:
        case "missing":
            return f"{where} field is required"
        case "string_type":
            return f"{where} must be a string"
        case "model_type":
            return f"{where} must be an object"
        case "list_type":
            return f"{where} must be a list"
        case "value_error":
            return f"{where} {first['msg'].removeprefix('Value error, ')}"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _dotted(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
