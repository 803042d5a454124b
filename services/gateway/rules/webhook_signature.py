"""Signatures of webhooks in the form of Standard Webhooks 1.0, the symmetric one (``v1``): both sides have the secret.

Signed is ``<id>.<timestamp>.<body>``, so that neither another body nor an old one can be passed off as new.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence

MARK = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Bytes of a secret, as the specification has them: 192 to 512 bits."""

MOST = 2
"""Secrets that are live at a time: the old and the new one, while receivers are given the new one."""

FORM = f"{MARK} and the base64 of {SHORTEST} to {LONGEST} random bytes"
_BETWEEN = re.compile(r"[\s,]+")


def read_secrets(value: str) -> tuple[bytes, ...]:
    """One or two secrets, with white space or a comma between them. Raises ``ValueError`` with what is wrong, without
    a word of the value."""
    written = [each for each in _BETWEEN.split(value) if each]
    if not written:
        raise ValueError("holds no secret")
    if len(written) > MOST:
        raise ValueError(f"holds more than {MOST} secrets")
    secrets = tuple(_secret(each) for each in written)
    if len(set(secrets)) < len(secrets):
        raise ValueError("holds the same secret twice")
    return secrets


def _secret(written: str) -> bytes:
    try:
        secret = base64.b64decode(written.removeprefix(MARK), validate=True)
    except (ValueError, binascii.Error):
        secret = b""
    if not written.startswith(MARK) or not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"holds something else than {FORM}")
    return secret


def signatures(identifier: str, timestamp: int, body: bytes, secrets: Sequence[bytes]) -> str:
    """What ``webhook-signature`` says: one signature for each secret; a receiver takes it when it knows any of them."""
    signed = b"%b.%d.%b" % (identifier.encode("ascii"), timestamp, body)
    made = (hmac.digest(secret, signed, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(each).decode('ascii')}" for each in made)
