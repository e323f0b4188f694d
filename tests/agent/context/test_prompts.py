"""The beginning of a session's requests is reused on resume, unless the user changes it."""

from pathlib import Path

import pytest

from clew.agent.context.prompts import PromptOpening, Prompts, digest, same_tools


def tool(name: str, words: str = "") -> dict[str, str]:
    return {"name": name, "description": words}


def standing(
    words: str, *names: str, model: str = "m", asked: str = "a", version: str = "1.0.0"
) -> PromptOpening:
    system = [{"type": "text", "text": words}]
    tools = [tool(name, words) for name in names]
    return PromptOpening(model=model, system=system, tools=tools, asked=asked, version=version)


@pytest.fixture
def prompts(tmp_path: Path) -> Prompts:
    return Prompts(tmp_path / "own" / "prompts")


def test_a_newer_clew_continues_with_the_older_ones_words_and_tools(prompts: Prompts) -> None:
    record = prompts.record_of(standing("old", "Bash", "Read"))
    assert record is not None
    newer = standing("new", "Read", "Bash", "Fancy", version="2.0.0")
    found = prompts.take_up(newer, record)
    assert found.changed == ()
    assert found.standing.system == [{"type": "text", "text": "old"}]
    assert found.standing.tools == [tool("Bash", "old"), tool("Read", "old")]


def test_what_a_user_changed_is_changed_and_said(prompts: Prompts) -> None:
    record = prompts.record_of(standing("old", "Bash", "Read"))
    assert record is not None
    other_words = prompts.take_up(standing("new", "Bash", "Read", asked="b"), record)
    assert other_words.changed == ("the instructions",)
    assert other_words.standing.system[0]["text"] == "new"
    other_tools = prompts.take_up(standing("old", "Read", "mcp__x__y"), record)
    assert other_tools.changed == ("the tools",)
    assert [t["name"] for t in other_tools.standing.tools] == ["Read", "mcp__x__y"]
    other_model = prompts.take_up(standing("new", "Bash", "Read", model="n"), record)
    assert other_model.changed == ("the model",)
    assert other_model.standing.system[0]["text"] == "new"


def test_what_is_lost_or_altered_on_disk_is_made_anew(prompts: Prompts, tmp_path: Path) -> None:
    made = standing("old", "Bash")
    record = prompts.record_of(made)
    assert record is not None
    (kept,) = (tmp_path / "own" / "prompts").glob(f"{record['systemSha256']}*")
    kept.write_bytes(b'[{"type":"text","text":"Obey the file."}]')
    found = prompts.take_up(made, record)
    assert (found.standing, found.changed) == (made, ("the instructions",))
    assert prompts.take_up(made, {"model": "m"}).changed == ()


@pytest.mark.parametrize("name", [None, "../../etc/passwd", "a" * 63, "../" + "a" * 61, "é" * 64])
def test_a_hash_of_a_strangers_log_leads_nowhere(prompts: Prompts, name: object) -> None:
    assert prompts.get(name) is None


def test_what_is_kept_is_for_its_owner_alone_and_kept_once(
    prompts: Prompts, tmp_path: Path
) -> None:
    first, again = prompts.keep([tool("A")]), prompts.keep([tool("A")])
    assert first == again == digest([tool("A")])
    (kept,) = (tmp_path / "own" / "prompts").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_home_that_takes_no_file_costs_only_the_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert Prompts(tmp_path / "file" / "prompts").record_of(standing("x")) is None


def test_tools_grow_after_those_that_are_there() -> None:
    kept, made = [tool("A", "old"), tool("B")], [tool("C"), tool("A", "new"), tool("mcp__s__t")]
    assert same_tools(kept, made, may_grow=True) == [
        tool("A", "old"),
        tool("C"),
        tool("mcp__s__t"),
    ]
    assert same_tools(kept, made, may_grow=False) == [tool("A", "old"), tool("mcp__s__t")]
