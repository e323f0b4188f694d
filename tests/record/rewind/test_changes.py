"""Lines of changes, read whatever they hold, and what they say a file was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.record.rewind.changes import (
    ABSENT,
    ChangeStep,
    FileState,
    PathChange,
    Rewind,
    compute_expected_states,
    compute_wanted_states,
    order_changes,
    path_of_text,
    step_of,
    text_of_path,
    to_redo,
)

A = FileState(kind="file", sha256="a" * 64, size=1, mode=0o644)
B = FileState(kind="file", sha256="b" * 64, size=1, mode=0o644)
LINK = FileState(kind="link", target="x")


def line(*changes: PathChange, **more: Any) -> dict[str, Any]:
    return {
        "type": "file-change",
        "messageId": "m",
        "toolUseId": "t",
        "changes": [change.as_json() for change in changes],
        **more,
    }


def test_a_line_says_what_was_recorded() -> None:
    changes = (
        PathChange(path="/a", before=FileState(kind="absent", under="/"), after=A),
        PathChange(
            path="/l\udcff", before=LINK, after=FileState(kind="unkept", size=5, why="large")
        ),
        PathChange(
            path="/o", before=ABSENT, after=FileState(kind="other", mode=0o755, why="it is no file")
        ),
    )
    step = step_of(line(*changes, more=3), 10, {("m", "t"): 20, ("other", "t"): 30})
    assert step is not None
    assert (step.changes, step.at, step.since, step.more) == (changes, 10, 20, 3)
    back = step_of(line(rewind={"to": "u", "leaf": None, "conversation": True, "redoOf": 7}), 1, {})
    assert back is not None
    assert back.rewind == Rewind(to="u", leaf=None, conversation=True, redo_of=7)


@pytest.mark.parametrize(
    "changes",
    [
        [5],
        [{"path": 5}],
        [{"path": "/a", "before": {"kind": "absent"}}],
        [{"path": "/a", "before": {"kind": "unheard of"}, "after": {"kind": "absent"}}],
        [{"path": "/a", "before": 5, "after": {"kind": "absent"}}],
    ],
)
def test_a_line_that_cannot_be_read_is_no_step(changes: list[Any]) -> None:
    assert step_of({"changes": changes}, 0, {}) is None


def test_a_line_with_odd_fields_is_read_as_far_as_it_goes() -> None:
    step = step_of({"changes": "none", "more": "x", "rewind": {"leaf": 5, "redoOf": "x"}}, 3, {})
    assert step is not None
    assert (step.changes, step.more, step.since) == ((), 0, 3)
    assert step.rewind == Rewind(to="", leaf=None, conversation=False)


@given(
    st.text(st.characters(codec=None, exclude_categories=["Cs"]) | st.sampled_from("\udc80\udcff"))
)
def test_every_path_survives_being_written(path: str) -> None:
    text_of_path(path).encode("utf-8")
    if not path.startswith("base64:"):
        assert path_of_text(text_of_path(path)) == path


def test_a_path_that_only_looks_spelled_is_itself() -> None:
    assert path_of_text("base64:?") == "base64:?"


def step(at: int, *changes: PathChange, rewind: Rewind | None = None) -> ChangeStep:
    return ChangeStep(
        at=at,
        since=at,
        tool_use_id="",
        message_uuid="",
        timestamp="",
        changes=changes,
        rewind=rewind,
    )


def test_what_a_file_was_is_what_the_next_change_found() -> None:
    steps = [
        step(1, PathChange(path="/a", before=ABSENT, after=A)),
        step(
            2,
            PathChange(path="/a", before=A, after=B),
            PathChange(path="/b", before=A, after=ABSENT),
        ),
    ]
    assert compute_wanted_states(steps, 0) == {"/a": ABSENT, "/b": A}
    assert compute_wanted_states(steps, 1) == {"/a": A, "/b": A}
    assert compute_wanted_states(steps, 2) == {}
    assert compute_expected_states(steps) == {"/a": (B,), "/b": (ABSENT,)}
    back = step(3, PathChange(path="/a", before=B, after=A), rewind=REWIND)
    assert compute_expected_states([*steps, back])["/a"] == (A, B)
    other = step(4, PathChange(path="/a", before=A, after=LINK), rewind=REWIND)
    assert compute_expected_states([*steps, back, other])["/a"] == (LINK, A, ABSENT)


REWIND = Rewind(to="u", leaf="l", conversation=True)


def test_files_go_before_their_folders_and_come_after_them() -> None:
    folder = FileState(kind="folder", mode=0o755)
    away, made = order_changes(
        [
            PathChange(path="/z", before=A, after=folder),
            PathChange(path="/z/b", before=ABSENT, after=A),
            PathChange(path="/d", before=folder, after=ABSENT),
            PathChange(path="/d/e", before=A, after=ABSENT),
            PathChange(path="/same", before=A, after=B),
        ]
    )
    assert [c.path for c in away] == ["/d/e", "/d", "/z"]
    assert [c.path for c in made] == ["/same", "/z", "/z/b"]


def test_ways_back_are_taken_back_one_by_one() -> None:
    first, second = step(1, rewind=REWIND), step(2, rewind=REWIND)
    redo = step(3, rewind=Rewind(to="u", leaf="l", conversation=True, redo_of=2))
    assert to_redo([]) is None
    assert to_redo([step(0)]) is None
    assert to_redo([first, second]) is second
    assert to_redo([first, second, redo]) is first


def test_two_states_are_one_when_nobody_can_tell_them_apart() -> None:
    assert ABSENT.same(FileState(kind="absent", under="/x"))
    assert not A.same(B)
    assert not A.same(FileState(kind="file", sha256=A.sha256, size=1, mode=0o755))


def test_a_folder_is_written_with_its_mode_alone() -> None:
    assert FileState(kind="folder", mode=0o755).as_json() == {"kind": "folder", "mode": 0o755}


def test_a_change_is_told_by_what_is_done_with_the_path() -> None:
    link, unkept = FileState(kind="link", target="x"), FileState(kind="unkept")
    assert PathChange(path="/a", before=ABSENT, after=A).verb == "recreated"
    assert PathChange(path="/a", before=A, after=ABSENT).verb == "removed"
    assert PathChange(path="/a", before=A, after=link).verb == "relinked"
    assert PathChange(path="/a", before=A, after=unkept).verb == "lost"
