"""A request's JSON against its type; what is wrong is said in one sentence, in the original's words if it had any."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.gateway.rules.first_mistake import first_mistake
from shared.errors import BadInput

FIRST_ONLY: Any = Field(fail_fast=True)
"""Stands at every list of a request: only the first thing that is wrong is told, and a body of megabytes could hold
millions of them."""


_NUMBER = re.compile(r"-?[0-9]{1,20}")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE: Any = BeforeValidator(_whole)
"""Stands at whole numbers of a request: JSON does not tell 7 from 7.0."""


def _in_digits(value: Any) -> Any:
    return value if not isinstance(value, str) or _NUMBER.fullmatch(value) else None


Number = Annotated[int, BeforeValidator(_in_digits)]
"""Stands at whole numbers of a query: digits and nothing else, where Python would also read ``1_0`` and ``+5``."""

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


class BadField(BadInput):
    """A field of a request can't be taken; ``field`` names it, and is empty where it is the whole."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


def read_as(model: type[Model], value: object) -> Model:
    """The value as this type. Raises ``BadInput`` with the first thing that is wrong."""
    if not isinstance(value, dict):
        raise BadInput(NO_OBJECT)
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        mistake = first_mistake(fault, value, model.says)
        raise BadField(mistake.sentence, mistake.field) from fault
