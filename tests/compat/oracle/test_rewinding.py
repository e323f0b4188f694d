"""Files rewound by one program in a session that the other one recorded, in both directions."""

import json
from pathlib import Path

import pytest

from tests.compat.oracle.programs import Observed, Which, observe
from tests.compat.oracle.trial import DONE, SKIP, Json, Trial, answer, call, control, say

CHECKPOINTS = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}


def write(path: str, text: str) -> Json:
    return call("Write", file_path=path, content=text)


def change(old: str, new: str) -> tuple[Json, Json]:
    read = call("Read", file_path="a.txt")
    return read, call("Edit", file_path="a.txt", old_string=old, new_string=new)


RECORDED = Trial(
    args=SKIP,
    environ=CHECKPOINTS,
    steps=(say("BEGIN"), say("AGAIN"), say("LAST")),
    model=[
        answer(write("a.txt", "ONE\n")), DONE,
        answer(*change("ONE", "TWO"), write("b.txt", "NEW\n")), DONE,
        answer(*change("TWO", "THREE")), DONE,
    ],
)  # fmt: skip


def prompts_of(folder: Path) -> list[str]:
    """Return the IDs of the prompts in the only transcript."""
    (transcript,) = folder.glob("home/config/projects/*/*.jsonl")
    entries = [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]
    return [
        entry["uuid"]
        for entry in entries
        if entry["type"] == "user" and isinstance(entry["message"]["content"], str)
    ]


def files_of(observed: Observed) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in observed.work.glob("*.txt")}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("recorder", "rewinder"), [("clew", "reference"), ("reference", "clew"), ("clew", "clew")]
)
def test_a_session_of_either_program_is_rewound_by_the_other(
    tmp_path: Path, recorder: Which, rewinder: Which
) -> None:
    recorded = observe(recorder, RECORDED, tmp_path)
    assert files_of(recorded) == {"a.txt": "THREE\n", "b.txt": "NEW\n"}
    first, second, last = prompts_of(tmp_path)

    def rewind(prompt: str, **more: bool) -> Json:
        step = control("rewind_files", user_message_id=prompt, **more)
        resume = ("--resume", recorded.frames[-1]["session_id"])
        trial = Trial(args=(*SKIP, *resume), environ=CHECKPOINTS, steps=(step,), model=[DONE])
        frames = observe(rewinder, trial, tmp_path).frames
        (response,) = [
            frame["response"]
            for frame in frames
            if frame["type"] == "control_response"
            and frame["response"]["request_id"] == "ask_rewind_files"
        ]
        found: Json = response["response"]
        return found

    both = [str(recorded.work / name) for name in ("a.txt", "b.txt")]
    assert rewind(second, dry_run=True) == {
        "canRewind": True,
        "filesChanged": both,
        "insertions": 1,
        "deletions": 2,
    }
    steps = (
        (last, {"a.txt": "TWO\n", "b.txt": "NEW\n"}),
        (second, {"a.txt": "ONE\n"}),
        (first, {}),
    )
    for prompt, expected in steps:
        done = rewind(prompt)
        assert (done["canRewind"], done["skippedLinks"]) == (True, 0)
        assert files_of(recorded) == expected
