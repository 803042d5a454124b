"""Skills over HTTP, with a real gateway that looks into the same folders as the workers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api_keys import bearer, make_key
from tests.stack import Stack, client, open_stack, wait_until

GOLDEN = (
    ("git-flow", "Advanced git process guidance", "git, vcs"),
    ("docker-ops", "Container lifecycle help", "docker"),
    ("node-setup", "Install packages and run node", "node"),
)
TOML = '[agent]\nname = "Testbert"\n[agent.skills]\nalways_on = ["docker-ops", "gone"]\n'


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, TOML) as opened:
        for name, description, tags in GOLDEN:
            write(opened, name, f"---\ndescription: {description}\ntags: [{tags}]\n---\nbody")
        yield opened


def write(stack: Stack, name: str, text: str) -> Path:
    folder = stack.workspace / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(text)
    return file


def matched(http: httpx2.Client, text: str) -> list[tuple[Any, ...]]:
    reply = http.get("/api/v1/skills/match", params={"q": text})
    assert reply.status_code == 200, reply.text
    return [(each["name"], each["score"], each["shown"]) for each in reply.json()["skills"]]


def test_skills_are_listed_with_what_is_skipped(stack: Stack) -> None:
    """And an added, edited or removed file is seen without a restart."""
    with client(stack.gateway()) as http:
        reply = http.get("/api/v1/skills").json()
        assert reply["agent"] == "Testbert"
        assert [each["name"] for each in reply["skills"]] == ["docker-ops", "git-flow", "node-setup"]
        assert reply["skills"][1] == {
            "name": "git-flow", "description": "Advanced git process guidance", "path": "skills/git-flow/SKILL.md",
            "enabled": True, "shown": "if_it_fits", "tags": ["git", "vcs"], "allowed_tools": None, "version": "",
            "author": "",
        }  # fmt: skip
        assert (reply["skills"][0]["shown"], reply["skipped"], reply["missing"]) == ("always", [], ["gone"])

        file = write(stack, "tea", "---\nallowedTools: [read]\n---\nBoil water.")
        wait_until(lambda: len(http.get("/api/v1/skills").json()["skills"]) == 4, "it is seen", within=5, every=0.3)
        (tea,) = [each for each in http.get("/api/v1/skills").json()["skills"] if each["name"] == "tea"]
        assert (tea["description"], tea["allowed_tools"]) == ("Boil water.", ["read"])
        file.write_text("")
        wait_until(lambda: http.get("/api/v1/skills").json()["skipped"], "it is broken", within=5, every=0.3)
        (skipped,) = http.get("/api/v1/skills").json()["skipped"]
        assert (skipped["path"], bool(skipped["reason"])) == ("skills/tea/SKILL.md", True)


def test_a_preview_has_the_golden_scores(stack: Stack) -> None:
    """The same that every worker computes, and the command line."""
    with client(stack.gateway()) as http:
        assert matched(http, "advanced git rebase") == [("git-flow", 6.3076, "yes")]
        assert matched(http, "run node tests") == [("node-setup", 8.0405, "yes")]
        assert matched(http, "a container") == [("docker-ops", 0.9242, "always")]
        assert matched(http, "write a poem") == []
        for query in ({}, {"q": ""}, {"q": " "}, {"q": "x" * 4001}):
            reply = http.get("/api/v1/skills/match", params=query)
            assert (reply.status_code, '"q"' in reply.json()["error"]) == (400, True)
        wide = http.get("/api/v1/skills/match", params={"q": "\U0001f600" * 4000})
        assert wide.status_code == 200, "a head has room for that"
        chat = bearer(make_key(stack.database_url, "phone", "chat"))
        for path in ("/api/v1/skills", "/api/v1/skills/match?q=git"):
            assert http.get(path, headers=chat).status_code == 403
