"""Reading a SKILL.md: the forms that are about, and what can't be used, with its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.skill import Skill
from shared.domain.skill_file import LONGEST_FRONT, BadSkill, read_skill


def read(text: str | bytes) -> Skill:
    raw = text.encode() if isinstance(text, str) else text
    return read_skill(raw, folder_name="the-folder", place="skills/the-folder/SKILL.md")


def test_the_originals_form_is_read() -> None:
    """Plain `key: value` lines, quotes taken off."""
    skill = read('---\nname: "weather"\ndescription: Tells the weather\n---\nAsk the station.\n')
    assert (skill.name, skill.description, skill.body) == ("weather", "Tells the weather", "Ask the station.")
    assert skill.allowed_tools is None


def test_the_open_form_is_read_with_what_it_has_beyond() -> None:
    """Skills of others are accepted as they are: fields that nobody here knows do no harm."""
    skill = read(
        "---\nname: pdf\ndescription: >\n  Fill\n  forms\nlicense: MIT\nallowed-tools: Read Bash(git add:*), Write\n"
        "metadata:\n  author: me\n  tags: [forms, pdf]\nversion: 1.0\ndependencies: {a: [1, 2]}\n---\n\n# Pdf\n"
    )
    assert (skill.name, skill.description, skill.body) == ("pdf", "Fill forms", "# Pdf")
    assert skill.allowed_tools == ("Read", "Bash(git add:*)", "Write")
    assert skill.tags == ("forms", "pdf")
    assert skill.version == "1.0"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("allowedTools: [read, write, read]", ("read", "write")),
        ("allowed_tools: read,write", ("read", "write")),
        ("allowedTools: []", ()),
        ("allowedTools:", None),
        ("allowedTools: {a: 1}", None),
        ("tags: x", None),
    ],
)
def test_tools_are_declared_in_any_of_the_ways(field: str, expected: tuple[str, ...] | None) -> None:
    """An empty list allows none; nothing said restricts nothing."""
    assert read(f"---\n{field}\n---\nbody").allowed_tools == expected


def test_what_yaml_refuses_is_read_as_the_original_reads_it() -> None:
    """A colon in a description is no YAML, and people write it."""
    skill = read(
        "---\nname: notes\ndescription: Use when: always\nsteps: |\n  one\n  two\ntags:\n  - a\n  - 'b'\n"
        'allowedTools: [read, "write"]\n---\nbody'
    )
    assert skill.description == "Use when: always"
    assert (skill.tags, skill.allowed_tools) == (("a", "b"), ("read", "write"))
    folded = read("---\ndescription: >\n  Use when:\n  you: like\n---\nbody")
    assert folded.description == "Use when: you: like"


def test_a_name_defaults_to_the_folder_and_a_description_to_the_first_line() -> None:
    """A file without front matter is a skill, too; Windows' line ends and a byte order mark are no matter."""
    skill = read(b"\xef\xbb\xbf\r\n# How to  brew\r\n\r\nBoil.")
    assert (skill.name, skill.description, skill.body) == ("the-folder", "How to brew", "# How to  brew\n\nBoil.")


def test_no_line_break_gets_into_the_catalogue() -> None:
    """One line each, or a description could forge the entries that follow."""
    skill = read('---\nname: "a\\nb\\ud800"\ndescription: "x\\n- **evil**: y\\u2028z"\n---\nbody')
    assert (skill.name, skill.description) == ("a b", "x - **evil**: y z")
    assert len(read("---\ndescription: " + "x" * 5000 + "\n---\nbody").description) == 1024


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is empty"),
        (b" \n ", "it is empty"),
        (b"---\nname: x\n---\n \n", "it says nothing below its front matter"),
        (b"---\nname: x\nbody", "its front matter has no closing line ---"),
        (b"---\njust words\n---\nbody", "its front matter is not made of lines like `name: value`"),
        (b"---\n- a\n- b\n---\nbody", "its front matter is not made of lines like `name: value`"),
        (b"---\nname: " + b"x" * 101 + b"\n---\nbody", "its name must have 1 to 100 characters"),
        (b"---\nx: " + b"y" * LONGEST_FRONT + b"\n---\nbody", "its front matter has more than 16384 characters"),
        (b"PK\x03\x04\x00\x00", "it is a binary file"),
        (b"---\nname: caf\xe9\n---\nbody", "it is not UTF-8 (byte 13)"),
    ],
)
def test_what_can_not_be_used_has_a_reason(raw: bytes, reason: str) -> None:
    """The operator reads it and knows what to mend."""
    with pytest.raises(BadSkill) as fault:
        read(raw)
    assert str(fault.value) == reason


@pytest.mark.parametrize(
    "front", ["a: " + "[" * 5000, "a: !!timestamp x", "a: 2026-13-45", "a: !!python/name:os.system", "? [b]\n: c"]
)
def test_front_matter_that_yaml_stumbles_over_breaks_nothing(front: str) -> None:
    """Also where the library itself raises what is none of its own errors; no object is ever made of it."""
    assert read(f"---\nname: x\n{front}\n---\nbody").name == "x"


@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: f"---\n{text}\n---\nbody".encode())))
def test_any_bytes_are_a_skill_or_have_a_reason(raw: bytes) -> None:
    """Nothing that lies in the folder stops the worker, and what is a skill can be stored and sent."""
    try:
        skill = read(raw)
    except BadSkill:
        return
    assert f"{skill.name}{skill.description}".encode()
    assert skill.name == skill.name.strip()
    assert "\n" not in skill.name + skill.description + "".join(skill.tags)
    assert skill.body.strip()
