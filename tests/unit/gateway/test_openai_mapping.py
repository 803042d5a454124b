"""What of an OpenAI request becomes the message, and where it belongs."""

from typing import Any
from uuid import UUID

import pytest

from services.gateway.rules.openai_chat import read_completion
from services.gateway.rules.openai_embeddings import read_embeddings
from services.gateway.rules.openai_errors import BadParameter, Unknown
from services.gateway.rules.openai_replies import answer_of, completion_body, names_agent, response_body, slug
from services.gateway.rules.openai_responses import read_response, run_of, sender_in
from services.gateway.rules.openai_shapes import Completion, ResponseReply
from services.gateway.rules.openai_turns import read_conversation_header
from shared.domain.api_key import ApiKey
from shared.domain.run import Question
from shared.errors import BadInput

RUN = UUID("0198a1b2-c3d4-7000-8000-000000000001")
IMAGE = "data:image/png;base64,AAAA"
HISTORY = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "my cat is Tom"},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "and my dog is Rex"},
    {"role": "user", "content": [{"type": "text", "text": "who is my cat?"}]},
]


def asked(messages: Any, **more: Any) -> Any:
    return read_completion({"model": "lucyd", "messages": messages, **more})[1]


def test_a_named_conversation_gets_what_is_new() -> None:
    """It remembers the rest itself; told again, everything would stand there twice."""
    got = asked(HISTORY, user="ada")
    assert got.conversation == "ada"
    assert got.text == "[context] Be kind.\nand my dog is Rex\n\nwho is my cat?"


def test_without_a_name_the_earlier_turns_come_as_context() -> None:
    """A client that names nobody keeps the history itself, and may have edited it."""
    got = asked(HISTORY)
    assert got.conversation is None
    assert got.text == (
        "[context] Be kind.\n"
        "[context] Said before in this conversation:\nuser: my cat is Tom\nassistant: Noted.\n\n"
        "and my dog is Rex\n\nwho is my cat?"
    )


def test_a_single_message_is_sent_as_it_is() -> None:
    """Nothing is put around it: the agent reads what the person wrote."""
    assert asked([{"role": "user", "content": "  hi "}]).text == "  hi "


def test_an_answer_at_the_end_asks_for_the_question_before_it() -> None:
    """Some clients ask to go on with an answer; there is nothing new, so the last question counts again."""
    assert asked([*HISTORY, {"role": "assistant", "content": "Tom"}], user="ada").text.endswith("who is my cat?")


def test_what_tools_of_a_client_have_said_before_is_read_too() -> None:
    """A history that another agent has written may have them; parts without words are left out."""
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "42"}
    got = asked([{"role": "user", "content": "ask"}, calls, result, {"role": "user", "content": "so?"}])
    assert "user: ask\ntool: 42\n" in got.text


def test_a_conversation_is_named_by_header_metadata_or_user_in_that_order() -> None:
    """The more particular name wins."""
    body: dict[str, Any] = {"model": "lucyd", "messages": [{"role": "user", "content": "hi"}], "user": "u"}
    assert read_completion(body)[1].conversation == "u"
    body["metadata"] = {"conversation": "m", "other": 7}
    assert read_completion(body)[1].conversation == "m"
    assert read_completion(body, conversation="h")[1].conversation == "h"


def test_the_header_is_read_as_utf_8_and_refused_where_it_is_no_name() -> None:
    """A header comes as bytes; names that no store takes are told."""
    assert read_conversation_header("Zoë".encode().decode("latin-1")) == "Zoë"
    assert read_conversation_header("  ") is None
    for wrong in ("\xff", "a\x07b", "x" * 201):
        with pytest.raises(BadInput, match="X-Lucyd-Conversation"):
            read_conversation_header(wrong)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"modalities": ["text", "audio"]}, "modalities[1]"),
        ({"logprobs": True}, "logprobs"),
        ({"user": "a\nb"}, "user"),
        ({"lucyd": {"when_busy": "never"}}, "lucyd.when_busy"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"model": 7}, "model"),
    ],
)
def test_what_would_mislead_is_refused_and_named(more: dict[str, Any], param: str) -> None:
    """To ignore these would answer something else than what was asked."""
    with pytest.raises(BadParameter) as raised:
        read_completion({"model": "lucyd", "messages": [{"role": "user", "content": "hi"}], **more})
    assert raised.value.param == param


def test_what_changes_only_the_taste_of_an_answer_is_taken() -> None:
    """Every client sends some of these; the agent's model is configured elsewhere."""
    tastes = {
        "temperature": 0.2,
        "top_p": 1,
        "max_tokens": 5,
        "stop": ["x"],
        "seed": 1,
        "n": 1,
        "tools": [],
        "logit_bias": {},
    }
    assert asked([{"role": "user", "content": "hi"}], **tastes).text == "hi"


def test_an_image_must_be_in_the_request() -> None:
    """Nothing is fetched for a caller: an address could be one of the house's own network."""
    part = {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}
    assert list(asked([{"role": "user", "content": [part]}]).images) == [IMAGE]
    part["image_url"] = {"url": "https://example.org/cat.png"}
    with pytest.raises(BadParameter):
        asked([{"role": "user", "content": [part]}])


def seen(*images: str, text: str = "") -> dict[str, Any]:
    words = [{"type": "text", "text": text}] if text else []
    return {"role": "user", "content": [*words, *({"type": "image_url", "image_url": {"url": url}} for url in images)]}


def picture(number: int) -> str:
    return f"data:image/png;base64,AAA{number}"


def test_a_named_conversation_gets_only_the_images_of_the_new_message() -> None:
    """It has the others; shown again with every request they would be paid again each time."""
    turns = [seen(IMAGE), {"role": "assistant", "content": "A cat."}, {"role": "user", "content": "sure?"}]
    assert list(asked(turns, user="ada").images) == []


def test_an_image_may_have_parameters_behind_its_type() -> None:
    """The form of such addresses has them, and `/api/v1/chat` takes them."""
    with_name = "data:image/png;name=cat.png;base64,AAAA"
    assert list(asked([seen(with_name)]).images) == [with_name]


def test_without_a_name_earlier_images_come_along_in_their_places() -> None:
    """Nobody else has them: who asks about a picture above must be answered about that picture."""
    turns = [
        seen(picture(1), text="my cat"),
        {"role": "assistant", "content": "Nice."},
        seen(picture(2), picture(3)),
        {"role": "assistant", "content": "Two dogs."},
        seen(picture(4), text="which was the first?"),
    ]
    got = asked(turns)
    assert list(got.images) == [picture(number) for number in (1, 2, 3, 4)]
    assert got.text == (
        "[context] Said before in this conversation:\n"
        "user: my cat [image 1]\nassistant: Nice.\nuser: [image 2] [image 3]\nassistant: Two dogs.\n\n"
        "which was the first?"
    )


def test_of_many_earlier_images_the_newest_come_along() -> None:
    """A long conversation must not come to a point from which on everything is refused."""
    turns = [seen(picture(1)), seen(picture(2)), {"role": "assistant", "content": "Yes."}, seen(picture(3), text="so?")]
    got = read_completion({"model": "lucyd", "messages": turns}, most_images=2)[1]
    assert list(got.images) == [picture(2), picture(3)]
    assert "user: [an image that is not shown again]\nuser: [image 1]\nassistant: Yes." in got.text
    none = read_completion({"model": "lucyd", "messages": turns}, most_images=0)[1]
    assert list(none.images) == [picture(3)]  # its own are refused where they are counted


def test_an_earlier_turn_that_says_nothing_is_passed_over() -> None:
    """Clients keep what a person has sent by mistake; it must not stop the conversation for good."""
    empty: list[Any] = [
        {"role": "user", "content": nothing} for nothing in ("", "  ", [], [{"type": "text", "text": ""}])
    ]
    for nothing in empty:
        turns = [nothing, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "hi"}]
        assert asked(turns).text.endswith("assistant: Yes?\n\nhi")
        assert asked(turns, user="ada").text == "hi"
        assert asked([*turns, nothing], user="ada").text == "hi"
    item = {"model": "lucyd", "input": [{"role": "user", "content": ""}, {"role": "user", "content": "hi"}]}
    assert read_response(item)[2].text == "hi"


@pytest.mark.parametrize("answer", [{"role": "assistant", "content": None}, {"role": "assistant", "content": ""}])
def test_an_answer_without_words_is_an_answer(answer: dict[str, Any]) -> None:
    """What was said before it was acted on already, and would be again."""
    turns = [{"role": "user", "content": "buy milk"}, answer, {"role": "user", "content": "thanks"}]
    assert asked(turns, user="ada").text == "thanks"
    assert asked(turns).text.endswith("user: buy milk\n\nthanks")


def test_what_tools_of_a_client_have_said_since_is_told() -> None:
    """A client that used a tool of its own asks with the result at the end: the answer is in it."""
    turns = [
        {"role": "user", "content": "how warm is it?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "31 degrees"},
    ]
    assert asked(turns).text == (
        "how warm is it?\n\n[context] Said since then:\nassistant: Let me look.\ntool: 31 degrees"
    )
    assert asked(turns, user="ada").text == "how warm is it?\n\n[context] Said since then:\ntool: 31 degrees"


def test_a_response_before_this_one_remembers() -> None:
    """It names a conversation, so earlier turns are not told again."""
    body = {"model": "lucyd", "input": HISTORY[1:4], "instructions": "Be kind."}
    alone = read_response(body)[2].text
    assert alone.startswith("[context] Be kind.\n[context] Said before")
    _, previous, got = read_response({**body, "previous_response_id": f"resp_{RUN.hex}"})
    assert previous == RUN
    assert got.text == "[context] Be kind.\nand my dog is Rex"


@pytest.mark.parametrize("conversation", ["c1", {"id": "c1"}])
def test_a_response_may_name_its_conversation(conversation: Any) -> None:
    """In both forms that OpenAI has."""
    assert read_response({"model": "x", "input": "hi", "conversation": conversation})[2].conversation == "c1"


@pytest.mark.parametrize(
    "wrong", ["", "resp_", f"msg_{RUN.hex}", "resp_" + "z" * 32, f"resp_{RUN}", "resp_" + "²" * 32]
)
def test_what_is_no_id_of_a_response_is_not_found(wrong: str) -> None:
    """OpenAI's clients know 404 there."""
    with pytest.raises(Unknown, match="no such response"):
        run_of(wrong)


@pytest.mark.parametrize(
    "more",
    [
        {"background": True},
        {"tools": [{"type": "web_search"}]},
        {"text": {"format": {"type": "json_schema"}}},
        {"prompt": {"id": "p"}},
        {"input": []},
        {"input": " "},
        {"input": [{"type": "function_call_output", "call_id": "1", "output": "2"}]},
    ],
)
def test_what_a_response_can_not_have_is_refused(more: dict[str, Any]) -> None:
    """As with completions: nothing that was asked for in vain is passed over in silence."""
    with pytest.raises(BadParameter):
        read_response({"model": "lucyd", "input": "hi", **more})


def test_the_sender_of_a_conversation_is_told_to_its_own_key_only() -> None:
    """A response id of another key, or of another channel, names nothing."""
    ada = ApiKey("ada")
    assert sender_in("http:ada:x:y", ada) == "x:y"
    assert sender_in("http:eve:x", ada) is None
    assert sender_in("telegram:7", ada) is None


def test_embeddings_are_read_in_all_their_forms() -> None:
    """A request that could never be answered is told so before it is told that nothing embeds here."""
    for given in ("a", ["a", "b"], [1, 2], [[1], [2]]):
        assert read_embeddings({"model": "x", "input": given}).input == given
    refused: list[Any] = [[], [[]], None, [1.5]]
    for wrong in refused:
        with pytest.raises(BadParameter):
            read_embeddings({"model": "x", "input": wrong})


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """JSON has one kind of numbers, and the document says `integer`, which 1.0 is."""
    assert asked([{"role": "user", "content": "hi"}], n=1.0).text == "hi"
    assert read_embeddings({"model": "x", "input": "a", "dimensions": 256.0}).dimensions == 256
    for wrong in (1.5, True, "1"):
        with pytest.raises(BadParameter):
            asked([{"role": "user", "content": "hi"}], n=wrong)


def test_the_agent_is_one_model_under_its_name() -> None:
    """Clients keep ids in settings and addresses: small letters, digits and dashes."""
    assert slug("Lucyd") == "lucyd"
    assert slug("Frau Müller 2") == "frau-muller-2"
    assert slug("Люсид") == "lucyd"
    assert all(names_agent(name, "Frau Müller") for name in ("frau-muller", "Frau Müller", "lucyd"))
    assert not names_agent("gpt-5", "Frau Müller")


OUTCOME = {
    "state": "done",
    "reply": "Tom.",
    "session_id": str(RUN),
    "tokens": {"input": 10, "output": 5, "cache_read": 7, "cache_write": 3},
    "cost": 0.5,
    "currency": "USD",
    "model": "m",
    "turns": 1,
    "notices": [],
}


def test_usage_counts_the_cache_as_part_of_the_prompt() -> None:
    """OpenAI's figures contain what Lucyd's keep apart."""
    usage = completion_body(answer_of(RUN, OUTCOME), "lucyd")["usage"]
    assert usage == {
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "total_tokens": 25,
        "prompt_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 3},
    }


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (OUTCOME, "completed"),
        (None, "in_progress"),
        (Question(RUN, RUN, "May I?", [(RUN, "exec")]), "completed"),
        ({"state": "failed", "error": "no"}, "failed"),
        ({"state": "dead", "error": "no"}, "failed"),
        ({"state": "cancelled"}, "cancelled"),
    ],
)
def test_bodies_have_the_shape_that_the_document_promises(outcome: Any, status: str) -> None:
    """Each state of a run is told in OpenAI's words."""
    answer = answer_of(RUN, outcome)
    told = response_body(answer, "lucyd", previous=RUN)
    ResponseReply.model_validate(told)
    assert told["status"] == status
    assert told["id"] == f"resp_{RUN.hex}"
    Completion.model_validate(completion_body(answer, "lucyd"))
