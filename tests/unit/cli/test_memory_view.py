"""What was found in memory reads as text."""

from cli.rules.memory_view import NOTHING, memory_text


def test_each_kind_stands_in_a_section_of_its_own() -> None:
    """And a kind of which there is nothing in none."""
    text = memory_text(
        {
            "facts": [{"entity": "anna_smith", "attribute": "favourite_tea", "value": "Assam"}],
            "episodes": [{"at": "2031-01-02T03:04:05+00:00", "summary": "We spoke of tea."}],
            "passages": [{"path": "MEMORY.md", "start_line": 3, "end_line": 4, "text": "Tea\nis good."}],
            "commitments": [
                {"id": 7, "who": "I", "what": "buy tea", "deadline": "2031-02-03T00:00:00+00:00"},
                {"id": 8, "who": "Anna", "what": "pay", "deadline": None},
            ],
        }
    )
    assert text == (
        "[Known facts]\nanna smith \N{EM DASH} favourite tea: Assam\n\n"
        "[Conversations]\n2031-01-02: We spoke of tea.\n\n"
        "[Files of the workspace]\nMEMORY.md:3-4\nTea\nis good.\n\n"
        "[Open commitments]\n#7 I: buy tea (by 2031-02-03)\n#8 Anna: pay"
    )
    assert memory_text({"facts": [], "episodes": []}) == memory_text({}) == NOTHING
