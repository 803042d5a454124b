"""Where secrets come from: variables of the environment, named by a file or usual for a vendor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from shared.domain.provider import ProviderType


@dataclass(frozen=True, slots=True)
class Vendor:
    """What is usual for one kind of provider. ``base_url`` ``None`` leaves the address to the vendor's own client."""

    provider: ProviderType
    hosts: tuple[str, ...] = ()
    base_url: str | None = None
    base_url_env: str = ""
    key_envs: tuple[str, ...] = ()


ANTHROPIC = Vendor(
    "anthropic",
    hosts=("api.anthropic.com",),
    base_url_env="ANTHROPIC_BASE_URL",
    key_envs=("LUCYD_ANTHROPIC_KEY", "ANTHROPIC_API_KEY"),
)
OPENAI = Vendor(
    "openai",
    hosts=("api.openai.com",),
    base_url_env="OPENAI_BASE_URL",
    key_envs=("LUCYD_OPENAI_KEY", "OPENAI_API_KEY"),
)
MISTRAL = Vendor(
    "openai",
    hosts=("api.mistral.ai",),
    base_url="https://api.mistral.ai/v1",
    key_envs=("LUCYD_MISTRAL_KEY", "MISTRAL_API_KEY"),
)
OFFLINE = Vendor("offline")

VENDORS: Mapping[str, Vendor] = {
    "anthropic": ANTHROPIC,
    "anthropic-compat": ANTHROPIC,
    "openai": OPENAI,
    "openai-compat": OPENAI,
    "mistral": MISTRAL,
    "offline": OFFLINE,
    "smoke-local": OFFLINE,
}
"""Every spelling of ``type`` that provider files have used."""


def first_set(names: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The first of these variables that is set and not empty."""
    return next((name for name in names if environ.get(name)), None)


def is_vendors_own(vendor: Vendor, base_url: str | None) -> bool:
    """Whether requests to ``base_url`` reach the vendor itself, who answers nobody without a key."""
    if base_url is None:
        return bool(vendor.hosts)
    return urlsplit(base_url).hostname in vendor.hosts
