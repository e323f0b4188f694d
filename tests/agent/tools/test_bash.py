"""Bash: commands in a real shell, run like the model's calls, with every way of ending reported."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from clew.agent.tools.base import ToolLimits
from clew.agent.tools.bash import Bash, spill_path
from clew.agent.tools.search_tools import Glob, Grep
from clew.agent.tools.shell_script import ARGUMENT_MAX_BYTES, FOLDER_FD
from clew.agent.tools.spill import IN_FILE, NOT_SAVED
from tests.agent.tools.workshop import Workshop
from tests.system.process.processes import lives, wait_ended


def bash(workshop: Workshop, command: str, **more: object) -> str:
    return str(workshop.use(Bash(), command=command, **more).content)


def test_what_a_command_prints_comes_back(workshop: Workshop) -> None:
    result = workshop.use(Bash(), command="echo out; echo err >&2; echo done")
    assert result.content == "out\nerr\ndone"
    assert result.tool_use_result == {
        "stdout": "out\nerr\ndone",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    assert bash(workshop, "true") == "(no output)"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo x; exit 3", "Exit code 3\nx"),
        ("false", "Exit code 1"),
        ("kill -9 $$", "Exit code 137 (the shell was killed by SIGKILL)"),
        ("sh -c 'kill -TERM $$'", "Exit code 143 (128 + SIGTERM)"),
        ("exit 255", "Exit code 255"),
    ],
)
def test_a_command_that_fails_is_an_error_with_its_code(
    workshop: Workshop, command: str, expected: str
) -> None:
    result = workshop.use(Bash(), command=command)
    assert result.is_error
    assert str(result.content).split("\n") == expected.split("\n") or str(
        result.content
    ).startswith(expected)
    assert result.tool_use_result == f"Error: {result.content}"


def test_a_command_that_does_not_parse_says_so(workshop: Workshop) -> None:
    said = bash(workshop, "echo 'open")
    assert said.startswith("Exit code")
    assert "unexpected EOF" in said
    assert bash(workshop, "cat <<X\nit's $((1+1))\nX") == "it's 2"


def test_the_folder_carries_over_and_variables_do_not(workshop: Workshop) -> None:
    workshop.write("sub dir/inner/x", "")
    assert bash(workshop, "cd 'sub dir' && export A=1; pwd") == f"{workshop.folder}/sub dir"
    assert bash(workshop, "pwd; echo [$A]") == f"{workshop.folder}/sub dir\n[]"
    bash(workshop, "cd inner; exit 4")
    assert workshop.session.cwd == f"{workshop.folder}/sub dir/inner"
    bash(workshop, "(cd /); sh -c 'cd /'")
    assert workshop.session.cwd == f"{workshop.folder}/sub dir/inner"
    bash(workshop, "cd /; exec true")
    assert workshop.session.cwd == f"{workshop.folder}/sub dir/inner"
    bash(workshop, "cd /; trap 'echo mine' EXIT")
    assert workshop.session.cwd == f"{workshop.folder}/sub dir/inner"


def test_a_program_cannot_say_in_the_shells_name_where_it_ended(workshop: Workshop) -> None:
    lie = f"echo / >/dev/fd/{FOLDER_FD}"
    workshop.write("lie.sh", f"#!/bin/sh\n{lie}\nsleep 0.2\n").chmod(0o755)
    for command in ("sh ./lie.sh", "./lie.sh", f"sh -c '{lie}'", "timeout 5 ./lie.sh"):
        bash(workshop, command)
        assert workshop.session.cwd == str(workshop.folder), command
    workshop.write("move.sh", "cd /\n")
    for command in (". ./move.sh", "eval 'cd /'", "f() { cd /; }; f", "command cd /", "pushd /"):
        bash(workshop, command)
        assert workshop.session.cwd == "/", command
        bash(workshop, f"cd {workshop.folder}")


def test_a_folder_that_is_gone_is_told_and_left(workshop: Workshop) -> None:
    workshop.write("sub/x", "")
    assert bash(workshop, "cd sub; rm -r ../sub") == "(no output)"
    assert bash(workshop, "pwd") == str(workshop.folder)
    workshop.session.cwd = f"{workshop.folder}/sub"
    said = bash(workshop, "pwd")
    assert said.startswith(f"{workshop.folder}\n(The folder {workshop.folder}/sub no longer exists")
    assert bash(workshop, "pwd") == str(workshop.folder)


def test_there_is_no_input_no_terminal_and_no_editor(workshop: Workshop) -> None:
    assert bash(workshop, "cat; tty; test -t 1 || echo none").startswith("not a tty\nnone")
    assert bash(workshop, "echo $CLEW $GIT_EDITOR $PATH") == f"1 true {os.environ['PATH']}"


def test_a_command_that_takes_too_long_is_ended_with_its_tree(workshop: Workshop) -> None:
    result = workshop.use(
        Bash(), command="(setsid sleep 600 & echo $!); trap '' TERM; sleep 600", timeout=2000
    )
    assert result.is_error
    first, pid = str(result.content).split("\n")
    assert first == "Timed out after 2 s; the command and all its processes were killed."
    assert not lives(int(pid))


def test_the_time_asked_for_has_a_ceiling(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shop = Workshop(folder, ToolLimits(bash_timeout_ms=100, bash_max_timeout_ms=200))
    assert "after 0.1 s" in bash(shop, "sleep 600")
    assert "after 0.2 s" in bash(shop, "sleep 600", timeout=900_000)
    shop.close()


def test_cancelling_ends_the_tree(workshop: Workshop) -> None:
    async def go() -> int:
        pid_file = workshop.folder / "pid"
        os.mkfifo(pid_file)
        given = Bash().input_type(command="sleep 600 & echo $! > pid; wait")
        task = asyncio.create_task(Bash().call(given, workshop.context()))
        pid = int(await asyncio.to_thread(pid_file.read_text, "utf-8"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    pid = workshop.use_later(go)
    assert not lives(pid)
    assert workshop.session.shell.launcher.living == 0


def test_what_runs_on_in_the_background_is_reported(workshop: Workshop) -> None:
    said = bash(workshop, "sleep 600 & echo $!")
    pid, note = said.split("\n")
    assert note.startswith("(1 process is still running")
    assert lives(int(pid))
    workshop.use_later(workshop.session.shell.launcher.aclose)
    wait_ended(int(pid))


def test_long_output_shows_both_ends_and_the_whole_is_in_a_file(workshop: Workshop) -> None:
    result = workshop.use(Bash(), command="seq 1 100000")
    assert not result.is_error
    text = str(result.content)
    whole = "".join(f"{i}\n" for i in range(1, 100_001))
    (path,) = workshop.session.spill_folder.iterdir()
    head, _, tail = text.partition("\n\n[")
    assert whole.startswith(head)
    assert whole.rstrip().endswith(tail.partition("]\n\n")[2])
    assert f"omitted, 588,895 bytes in total; {IN_FILE} {path}" in text
    assert 29_000 < len(text) < 30_300
    assert path.read_text("utf-8") == whole
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert result.tool_use_result["persistedOutputPath"] == str(path)
    assert result.tool_use_result["persistedOutputSize"] == 588_895
    again = workshop.use(Bash(), command="seq 1 100001")
    assert again.tool_use_result["persistedOutputPath"] != str(path)


def test_output_between_the_limit_and_what_memory_keeps_is_saved_too(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shop = Workshop(folder, ToolLimits(bash_max_output_chars=100))
    assert bash(shop, "printf 'ä%.0s' $(seq 100)") == "ä" * 100
    said = bash(shop, "printf 'ä%.0s' $(seq 101)")
    assert said.startswith(
        "ä" * 50 + "\n\n[... middle omitted, 202 bytes in total; the full output"
    )
    assert said.endswith("ä" * 50)
    (file,) = shop.session.spill_folder.iterdir()
    assert file.read_text("utf-8") == "ä" * 101
    shop.close()


def test_output_that_cannot_be_saved_still_shows_its_ends(workshop: Workshop) -> None:
    workshop.session.spill_folder = workshop.write("file", "") / "under"
    said = bash(workshop, "seq 1 100000")
    assert NOT_SAVED in said
    assert said.endswith("100000")


def test_a_call_id_from_a_model_cannot_leave_the_folder(workshop: Workshop) -> None:
    context = workshop.context("../../evil/./..")
    assert spill_path(context) == workshop.session.spill_folder / "evil.txt"


def test_a_command_too_long_for_an_argument_runs_whole(workshop: Workshop) -> None:
    long = "x" * (2 * ARGUMENT_MAX_BYTES)
    assert bash(workshop, f"A='{long}'; cd /; echo ${{#A}} it\\'s; exit 5").startswith(
        "Exit code 5\n200000 it's"
    )
    assert workshop.session.cwd == "/"


def test_bytes_that_are_no_text_are_shown_as_well_as_can_be(workshop: Workshop) -> None:
    assert bash(workshop, "printf 'a\\377b'") == "a\ufffdb"


def test_a_long_command_tells_how_far_it_is(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.system.process.run.TICK_S", 0.02)
    fifo = workshop.folder / "go"
    os.mkfifo(fifo)

    async def go() -> None:
        begun = asyncio.Event()
        workshop.on_progress = lambda progress: begun.set() if progress.text == "begun\n" else None
        given = Bash().input_type(command="echo begun; read line < go")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Bash().call(given, workshop.context()))
            await begun.wait()
            await asyncio.to_thread(fifo.write_text, "line\n", "utf-8")

    workshop.use_later(go)
    assert {"totalBytes": 6} in [progress.data for progress in workshop.progress]


@pytest.mark.parametrize(
    ("text", "says"), [("a\0b", "a NUL character"), ("\ud800", "a lone surrogate")]
)
def test_characters_that_no_system_call_takes_are_refused_in_words(
    workshop: Workshop, text: str, says: str
) -> None:
    for result in (
        workshop.use(Bash(), command=text),
        workshop.use(Grep(), pattern=text),
        workshop.use(Glob(), pattern=text),
        workshop.use(Glob(), pattern="*", path=text),
    ):
        assert result.is_error
        assert str(result.content).endswith(f"can't contain {says}.")


def test_titles() -> None:
    tool = Bash()
    assert tool.title(tool.input_type(command="ls\npwd")) == "ls"
    assert tool.title(tool.input_type(command="ls", description="List files")) == "List files"
