"""Signatures of webhooks: what the specification says, and secrets that are none."""

import base64
import hashlib
import hmac

import pytest

from services.gateway.rules.webhook_signature import read_secrets, signatures

OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW = "whsec_" + base64.b64encode(bytes(range(64))).decode()


def test_it_is_what_the_libraries_of_the_standard_make() -> None:
    """The value was made with the reference library for Python."""
    made = signatures("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', read_secrets(OLD))
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_secrets_make_two_signatures_and_either_fits() -> None:
    """A receiver with the old one and a receiver with the new one both take it."""
    body = '{"reply": "Gr\N{LATIN SMALL LETTER U WITH DIAERESIS}\N{LATIN SMALL LETTER SHARP S}e"}'.encode()
    made = signatures("0198", 1779399180, body, read_secrets(f"{OLD} {NEW}")).split(" ")
    expected = []
    for secret in (OLD, NEW):
        key = base64.b64decode(secret[len("whsec_") :])
        expected.append(base64.b64encode(hmac.new(key, b"0198.1779399180." + body, hashlib.sha256).digest()).decode())
    assert made == [f"v1,{each}" for each in expected]


@pytest.mark.parametrize("between", [" ", ",", ", ", "\n", "\t ,\n"])
def test_secrets_stand_beside_each_other_as_people_write_them(between: str) -> None:
    """In a variable, a file of systemd or a secret of a cluster, with a line break at the end."""
    assert read_secrets(f" {OLD}{between}{NEW}\n") == (base64.b64decode(OLD[6:]), bytes(range(64)))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (" , ", "holds no secret"),
        (f"{OLD} {NEW} {OLD}", "holds more than 2 secrets"),
        (f"{OLD},{OLD}", "holds the same secret twice"),
        (OLD.removeprefix("whsec_"), "holds something else"),
        ("whsec_" + base64.b64encode(b"x" * 23).decode(), "holds something else"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), "holds something else"),
        (OLD[:-1], "holds something else"),
        (OLD + "!", "holds something else"),
        ("whsec_gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n", "holds something else"),
        (f"{NEW} whsec_", "holds something else"),
    ],
)
def test_what_is_no_secret_is_told_without_a_word_of_it(value: str, sentence: str) -> None:
    """The sentence ends up in a terminal and in a log."""
    with pytest.raises(ValueError, match=sentence) as told:
        read_secrets(value)
    words = [word.removeprefix("whsec_") for word in value.replace(",", " ").split()]
    assert not [word for word in words if word and word in str(told.value)]
