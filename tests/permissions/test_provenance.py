"""Labels of the blocks in a conversation: each has one, and only untrusted ones matter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages import factories
from clew.permissions.provenance import VOUCHED, Provenance, Source

Json = dict[str, Any]
STAMP = {"uuid": "u", "at": "2026-01-01T00:00:00.000Z"}


def place(path: str) -> Source:
    if path.startswith("/results/"):
        return "session"
    return "file" if path.startswith("/") else "project"


def labels(*entries: Json) -> list[Source]:
    provenance = Provenance(place)
    return [source for entry in entries for _, source in provenance.labelled(entry)]


def answer(*blocks: Json) -> Json:
    return {"type": "assistant", "message": {"content": list(blocks)}}


def called(name: str, given: Any) -> list[Json]:
    """A call and its result."""
    use = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    result = factories.make_tool_answer("t1", "text", source_uuid="a", **STAMP)
    return [answer(use), result]


@pytest.mark.parametrize(
    ("name", "given", "source"),
    [
        ("WebFetch", {"url": "https://example.com"}, "web"),
        ("WebSearch", {"query": "x"}, "web"),
        ("mcp__github__read", {}, "mcp"),
        ("ReadMcpResourceTool", {"uri": "x"}, "mcp"),
        ("ListMcpResourcesTool", {}, "mcp"),
        ("Agent", {"prompt": "look"}, "agent"),
        ("Skill", {"skill": "commit"}, "project"),
        ("Read", {"file_path": "a.py"}, "project"),
        ("Read", {"file_path": "/elsewhere/a.py"}, "file"),
        ("Read", {}, "project"),
        ("Grep", {"pattern": "x"}, "project"),
        ("Glob", {"pattern": "x", "path": "/elsewhere"}, "file"),
        ("Edit", {"file_path": "a.py"}, "tool"),
        ("TodoWrite", {}, "tool"),
        ("Unheard", {}, "tool"),
        ("Bash", {"command": "make test"}, "tool"),
        ("Bash", {"command": 7}, "tool"),
        ("Bash", "no object", "tool"),
        ("Bash", {"command": "curl -s example.com"}, "web"),
        ("Bash", {"command": "cd x && git -C y pull"}, "web"),
        ("Bash", {"command": "git status"}, "tool"),
        ("Bash", {"command": "python get.py http://example.com"}, "web"),
        ("Bash", {"command": "cat < /dev/tcp/example.com/80"}, "web"),
    ],
)
def test_a_result_is_labelled_by_the_call_that_brought_it(
    name: str, given: Any, source: Source
) -> None:
    assert labels(*called(name, given)) == ["model", source]


@pytest.mark.parametrize(
    ("entry", "sources"),
    [
        (factories.make_user("hi", **STAMP), ["user"]),
        (factories.make_user("hi", **STAMP, origin={"kind": "human"}), ["user"]),
        (factories.make_user("hi", **STAMP, origin={"kind": "channel"}), ["tool"]),
        (factories.make_user("x", **STAMP, origin={"kind": "skill", "source": "user"}), ["user"]),
        (
            factories.make_user("x", **STAMP, origin={"kind": "skill", "source": "project"}),
            ["project"],
        ),
        (factories.make_user("go on", **STAMP, is_meta=True), ["session"]),
        ({"type": "user", "isCompactSummary": True, "message": {"content": "so far"}}, ["summary"]),
        (factories.make_tool_answer("unknown", "x", source_uuid="a", **STAMP), ["tool"]),
        (answer({"type": "text", "text": "hi"}), ["model"]),
        (answer({"type": "web_search_tool_result", "content": []}), ["web"]),
        (answer({"type": "mcp_tool_result", "content": []}), ["mcp"]),
        ({"type": "user", "message": None}, []),
        ({"type": "user", "message": {"content": 3}}, []),
        ({"type": "system", "content": "x"}, []),
    ],
)
def test_an_entry_is_labelled_by_who_speaks(entry: Json, sources: list[Source]) -> None:
    assert labels(entry) == sources


@pytest.mark.parametrize(
    ("payload", "sources"),
    [
        ({"type": "date"}, {"session"}),
        ({"type": "session_context", "context": {}}, {"project"}),
        ({"type": "mcp_resource", "uri": "x"}, {"mcp"}),
        ({"type": "unheard"}, {"tool"}),
        ({"type": "file", "filename": "/elsewhere/x"}, {"file"}),
        ({"type": "file", "filename": "x"}, {"project"}),
        (
            {"type": "instructions", "files": [{"type": "User"}, {"type": "Project"}]},
            {"user", "project"},
        ),
        ({"type": "instructions", "files": ["odd"]}, set()),
        ({"type": "skill_listing", "origins": ["bundled", "user"]}, {"session", "user"}),
        ({"type": "skill_listing", "origins": ["project"]}, {"project"}),
        ({"type": "skill_listing"}, {"project"}),
    ],
)
def test_an_attachment_is_labelled_by_what_it_holds(payload: Json, sources: set[Source]) -> None:
    assert set(labels(factories.make_attachment(payload, **STAMP))) == sources


def test_an_attachment_that_is_none_has_no_label() -> None:
    assert labels({"type": "attachment", "attachment": "odd"}) == []


def test_only_what_nobody_vouches_for_is_told_and_a_trusted_folder_is_vouched_for() -> None:
    provenance = Provenance(place)
    provenance.extend([factories.make_user("hi", **STAMP), *called("Read", {"file_path": "a.py"})])
    assert provenance.unvouched(is_trusted=True) == ()
    assert provenance.unvouched(is_trusted=False) == ("project",)
    provenance.extend(called("WebFetch", {"url": "https://example.com"}))
    assert provenance.unvouched(is_trusted=True) == ("web",)
    assert provenance.unvouched(is_trusted=False) == ("project", "web")


ENTRIES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.sampled_from(["user", "assistant"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "message", "content", "attachment", "id", "tool_use_id", "input"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.no_cover
@given(entries=st.lists(ENTRIES.filter(lambda e: isinstance(e, dict)), max_size=5))
def test_no_entry_ends_the_labelling_and_more_text_never_vouches_for_less(
    entries: list[Any],
) -> None:
    provenance = Provenance(place)
    seen: set[Source] = set()
    for entry in entries:
        provenance.extend([entry])
        now = set(provenance.unvouched(is_trusted=True))
        assert seen <= now
        assert not now & VOUCHED
        seen = set(provenance.sources) - VOUCHED - {"project", "tool"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("t1.txt", "web"),
        ("t1-0f3a92bc.txt", "web"),
        ("t2.txt", "tool"),
        ("t3.txt", "file"),
        ("task-s1.txt", "file"),
        ("t1-other.txt", "file"),
    ],
)
def test_a_stored_result_is_from_where_its_call_brought_it(name: str, source: Source) -> None:
    fetch = {"type": "tool_use", "id": "t1", "name": "WebFetch", "input": {"url": "https://x.com"}}
    make = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "make"}}
    read = {"type": "tool_use", "id": "t9", "name": "Read"}
    read["input"] = {"file_path": f"/results/{name}"}
    result = factories.make_tool_answer("t9", "text", source_uuid="a", **STAMP)
    assert labels(answer(fetch, make, read), result)[-1] == source
