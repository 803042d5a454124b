"""What a client may ask for, checked before anything is stored."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from services.gateway.rules.attachments import Attachments, labels_of
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.request_body import RequestBody, RequestQuery, read_as
from shared.domain.api_key import ApiKey
from shared.domain.run import Address, Source, WhenBusy
from shared.errors import BadInput

LONGEST_NAME = 200
LONGEST_KEY = 255
UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")
"""What no name has: control characters, and characters that were broken on their way."""

SOMETHING = re.compile(r"[^\s\u001c-\u001f\u0085\ufeff]")
"""More than white space, whoever reads the pattern: languages differ about what that is."""

UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NAME_SAYS = f"must be at most {LONGEST_NAME} characters, without control characters"
_NAME_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f\ufffd]*$"


def _with_something_in_it(text: str) -> str:
    if not SOMETHING.search(text):
        raise ValueError("must not be empty")
    return text


def _name(text: str) -> str:
    # As it was sent: the document's pattern and length are of that.
    if len(text) > LONGEST_NAME or UNFIT.search(text):
        raise ValueError(_NAME_SAYS)
    return text.strip()


def storable(text: str) -> str:
    """The text without what neither Postgres nor UTF-8 can hold."""
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


Filled = Annotated[str, AfterValidator(_with_something_in_it), Field(json_schema_extra={"pattern": SOMETHING.pattern})]
"""Text with something in it besides white space."""

Name = Annotated[
    str, AfterValidator(_name), Field(json_schema_extra={"maxLength": LONGEST_NAME, "pattern": _NAME_PATTERN})
]
"""What somebody or something is called."""

LARGEST_NUMBER = 2**53 - 1
"""Beyond it languages disagree about which number was meant."""


def _in_digits(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 7.0 is the same number in JSON
    if isinstance(value, int) and not isinstance(value, bool) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        return str(value)
    return value


Sender = Annotated[
    Name,
    BeforeValidator(_in_digits),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": LONGEST_NAME, "pattern": _NAME_PATTERN},
                {"type": "integer", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
            ]
        }
    ),
]
"""Who writes; a number, which many systems know their people by, is taken as its digits."""

Tier = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}\Z", json_schema_extra={"pattern": "^[A-Za-z0-9_-]{1,64}$"})]
"""The name of a context tier."""

Target = Annotated[Filled, Field(json_schema_extra={"pattern": rf"(?=.*{SOMETHING.pattern}){_NAME_PATTERN}"})]


NO_MESSAGE = '"message" field is required'

_SAYS_SOMETHING: dict[str, Any] = {
    "anyOf": [
        {"required": ["message"], "properties": {"message": {"type": "string", "pattern": SOMETHING.pattern}}},
        {"required": ["attachments"], "properties": {"attachments": {"type": "array", "minItems": 1}}},
    ]
}


class SpokenBody(RequestBody):
    """What a person says: a text, or files, or both."""

    model_config = ConfigDict(json_schema_extra=_SAYS_SOMETHING)

    message: str | None = Field(
        None,
        description="The text; required unless attachments come.",
        examples=["What did I ask you yesterday?"],
    )
    context: str | None = Field(None, description="Put before the message as `[<context>] `.")
    tier: Tier | None = Field(None, description="Which workspace files are shown; `full` when it is left out.")
    attachments: Attachments | None = Field(None, description="Files that come with the text, or without one.")

    says: ClassVar[Mapping[str, str]] = {
        "message": NO_MESSAGE,
        "tier": '"tier" must be the name of a context tier',
    }

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not SOMETHING.search(self.message or "") and not self.attachments:
            raise ValueError(NO_MESSAGE)
        return self

    def text(self) -> str:
        """What the agent reads, with the context in front of it; what comes without a word is told by its kind. What
        neither Postgres nor UTF-8 can hold (NUL, halves of characters) is replaced."""
        has_words = SOMETHING.search(self.message or "")
        said = self.message if has_words else labels_of(self.attachments or ())
        return storable(f"[{self.context}] {said}" if self.context else f"{said}")


class ChatBody(SpokenBody):
    """A message for the agent."""

    sender: Sender | None = Field(None, description="Who writes. Each sender has a conversation of its own.")
    source: Literal["http", "cli"] = Field("http", description="`cli` is the terminal's conversation.")
    when_busy: WhenBusy = Field("queue", description="What is to happen while an earlier message is answered.")

    says: ClassVar[Mapping[str, str]] = {
        **SpokenBody.says,
        "source": '"source" must be "http" or "cli"',
        "when_busy": '"when_busy" must be "queue", "steer", "interrupt" or "reject"',
    }


class DecisionBody(RequestBody):
    """What a person decides about a question of a run."""

    decision: Literal["allow", "deny"]
    answer: str | None = Field(None, description="Read by the agent when the decision is `deny`.")

    says: ClassVar[Mapping[str, str]] = {"decision": '"decision" must be "allow" or "deny"'}


class ResetBody(RequestBody):
    """Whose sessions are closed."""

    target: Target = Field(
        "all", description="`all`, a contact, a conversation key or a session id.", examples=["http-ada"]
    )

    says: ClassVar[Mapping[str, str]] = {"target": '"target" must be a non-empty string'}


class HistoryQuery(RequestQuery):
    """How much of what was said."""

    full: str = Field("", description="`true`, `1` or `yes`: also calls of tools, thinking and results.")


_NUMBER = r"([0-9]{1,19}|1[0-7][0-9]{18}|18446744073709551615)"
"""Ids are numbers of 64 bits, and the largest is the end's."""

EVENT_ID = rf"^{_NUMBER}-{_NUMBER}$"
LAST_EVENT_ID = rf"^({_NUMBER}-{_NUMBER})?$"
"""How a client names the last event it has; an empty one is none."""


class EventsQuery(RequestQuery):
    """Where to go on."""

    after: Annotated[str, Field(json_schema_extra={"pattern": LAST_EVENT_ID})] | None = Field(
        None, description="As the header `Last-Event-ID`."
    )


PERIOD = r"^(today|week|all|[12][0-9]{3}-(0[1-9]|1[0-2]))\Z"


class CostQuery(RequestQuery):
    """Which costs."""

    period: Annotated[str, Field(pattern=PERIOD, json_schema_extra={"pattern": PERIOD.replace(r"\Z", "$")})] = Field(
        "today", description="`today`, `week`, `all`, or a month such as `2026-05`. Days begin at midnight UTC."
    )

    says: ClassVar[Mapping[str, str]] = {"period": '"period" must be today, week, all or a month (2026-05)'}


def read_chat(body: object, *, key: ApiKey) -> Incoming:
    """The message out of a JSON body. Raises ``BadInput`` with the sentence for the caller."""
    asked = read_as(ChatBody, body)
    sender = asked.sender or ("cli" if asked.source == "cli" else "default")
    return Incoming(
        asked.text(),
        sender,
        asked.source,
        asked.tier or "full",
        address_of(asked.source, sender, key=key),
        files=asked.attachments or (),
        when_busy=asked.when_busy,
    )


def read_decision(body: object) -> tuple[bool, str]:
    """What a person decides, and their words. Raises ``BadInput``."""
    asked = read_as(DecisionBody, body)
    return asked.decision == "allow", storable(asked.answer or "")


def read_reset_target(body: object) -> str:
    """The target of a reset. Raises ``BadInput``."""
    target = read_as(ResetBody, body).target
    if UNFIT.search(target):
        raise BadInput('"target" must be a name without control characters')
    return target.strip()


def read_idempotency_key(value: str | None) -> str | None:
    """The header of that name. Raises ``BadInput`` when it is empty, too long or not plain text."""
    if value is None:
        return None
    if not 1 <= len(value) <= LONGEST_KEY or not value.isascii() or not value.isprintable():
        raise BadInput(f"Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters")
    return value


def address_of(source: Source, sender: str, *, key: ApiKey) -> Address:
    """Where a message belongs: the terminal has one conversation, API callers one for each sender of their key.

    The terminal is the operator's; a key that says it is one has its own conversations like any other.
    """
    if source == "cli" and key.is_operator:
        conversation = "cli" if sender == "cli" else f"cli:{sender}"
        return Address(conversation, "cli", key.principal, sender)
    return Address(f"http:{key.name}:{sender}", "http", key.principal, f"http-{sender}")


def read_last_event_id(value: str | None) -> str | None:
    """The event that a client has seen, ``None`` when it has seen none. Raises ``BadInput``."""
    if value and not re.fullmatch(EVENT_ID, value):
        raise BadInput("Last-Event-ID is not an event id of this API")
    return value or None


def read_traceparent(value: str | None) -> str | None:
    """The W3C trace context, level 1; one of another form is left out, as the standard asks."""
    return value if value is not None and TRACEPARENT.fullmatch(value) else None
