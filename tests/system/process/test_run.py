"""Commands run to their end: real processes, bounded waits, and nothing left behind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.core.messages.errors import OutsideError
from clew.system.process.output import ProcessOutput
from clew.system.process.run import FinishedCommand, run
from clew.system.process.spawn import IDLE_MOST, Launcher
from clew.system.process.tree import ProcessExit, read_parent
from tests.system.process.processes import lives, read_pids, wait_ended

ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@asynccontextmanager
async def launching(*, adopts: bool = True) -> AsyncIterator[Launcher]:
    launcher = Launcher(adopts=adopts)
    try:
        yield launcher
    finally:
        await launcher.aclose()


def in_shell(
    command: str, *, timeout_s: float | None = 20, adopts: bool = True, cwd: str = "/"
) -> tuple[FinishedCommand, ProcessOutput]:
    async def go() -> tuple[FinishedCommand, ProcessOutput]:
        output = ProcessOutput(keep_bytes=100_000)
        async with launching(adopts=adopts) as launcher:
            finished = await shell(launcher, command, output, timeout_s=timeout_s, cwd=cwd)
        return finished, output

    return asyncio.run(go())


async def shell(
    launcher: Launcher,
    command: str,
    output: ProcessOutput | None = None,
    *,
    timeout_s: float | None = 20,
    cwd: str = "/",
    tick: Callable[[], Awaitable[None]] | None = None,
) -> FinishedCommand:
    return await run(
        launcher,
        ["bash", "-c", command],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=output or ProcessOutput(keep_bytes=100_000),
        timeout_s=timeout_s,
        tick=tick,
    )


def test_output_of_both_streams_comes_in_order_with_the_folder_and_the_environment(
    tmp_path: Path,
) -> None:
    finished, output = in_shell(
        "pwd; echo two >&2; echo $LANG; cat; env | grep -c .", cwd=str(tmp_path)
    )
    assert finished == FinishedCommand(exit=ProcessExit(code=0))
    assert bytes(output.head).decode().split() == [str(tmp_path), "two", "C.UTF-8", "5"]


def test_both_streams_can_be_kept_apart() -> None:
    async def go() -> tuple[bytes, bytes]:
        out, err = ProcessOutput(keep_bytes=99), ProcessOutput(keep_bytes=99)
        async with launching() as launcher:
            await run(
                launcher, ["sh", "-c", "echo o; echo e >&2"],
                cwd="/", env=ENVIRONMENT, stdout=out, stderr=err,
            )  # fmt: skip
        return bytes(out.head), bytes(err.head)

    assert asyncio.run(go()) == (b"o\n", b"e\n")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 0", ProcessExit(code=0)),
        ("exit 3", ProcessExit(code=3)),
        ("exit 200", ProcessExit(code=200)),
        ("kill -TERM $$", ProcessExit(code=143, signal="SIGTERM")),
        ("kill -KILL $$", ProcessExit(code=137, signal="SIGKILL")),
        ("sh -c 'kill -SEGV $$'; exit $?", ProcessExit(code=139)),
        ("kill -34 $$", ProcessExit(code=162, signal="SIGRTMIN")),
    ],
)
def test_exit_codes_are_honest_and_signals_have_their_names(
    command: str, expected: ProcessExit
) -> None:
    finished, _ = in_shell(command)
    assert finished.exit == expected


@pytest.mark.parametrize(
    ("argv", "cwd", "says"),
    [
        (["no-such-program-here"], "/", "program not found"),
        (["/etc/hostname-not-there"], "/", "program not found"),
        (["sh"], "/no/such/folder", "No such file"),
        (["sh", "-c", "x" * 200_000], "/", "too long"),
        (["sh", "-c", "a\0b"], "/", "NUL character"),
    ],
)
def test_a_program_that_cannot_start_is_an_oserror(argv: list[str], cwd: str, says: str) -> None:
    async def go() -> None:
        async with launching() as launcher:
            with pytest.raises(OSError, match=says):
                await run(
                    launcher, argv, cwd=cwd, env=ENVIRONMENT, stdout=ProcessOutput(keep_bytes=9)
                )
            assert launcher.living == 0
            assert (await shell(launcher, "exit 4")).exit.code == 4

    asyncio.run(go())


def test_a_child_that_holds_the_pipe_after_the_shell_ended_does_not_block() -> None:
    async def go() -> None:
        output = ProcessOutput(keep_bytes=100)
        async with launching() as launcher:
            finished = await shell(launcher, "sleep 600 & echo $!; disown", output)
            assert finished == FinishedCommand(exit=ProcessExit(code=0), left=1)
            assert launcher.living == 1
            assert lives(int(output.head))
        assert launcher.living == 0
        wait_ended(int(output.head))

    asyncio.run(go())


def test_a_process_left_in_the_background_never_blocks_on_its_pipe() -> None:
    async def go() -> None:
        there, ours = os.pipe()
        output = ProcessOutput(keep_bytes=100)
        async with launching() as launcher:
            # It writes far more than a pipe holds, and says when all of it went.
            command = "(head -c 9000000 /dev/zero; echo 1 >&9) & exit 0"
            finished = await run(
                launcher, ["bash", "-c", command],
                cwd="/", env=ENVIRONMENT, stdout=output, descriptors={9: ours},
            )  # fmt: skip
            assert finished.exit.code == 0
            assert await asyncio.to_thread(read_pids, there, 1) == [1]
        assert output.size < 9_000_000 or not finished.left
        os.close(there)
        os.close(ours)

    asyncio.run(go())


@pytest.mark.parametrize("adopts", [True, False])
def test_a_command_that_ignores_sigterm_is_killed_when_its_time_is_over(adopts: bool) -> None:
    finished, output = in_shell(
        "trap '' TERM; echo $$; while :; do sleep 600; done", timeout_s=2, adopts=adopts
    )
    assert finished == FinishedCommand(exit=ProcessExit(code=137, signal="SIGKILL"), timed_out=True)
    assert not lives(int(output.head))


def test_a_command_whose_time_is_over_may_put_its_things_in_order() -> None:
    finished, output = in_shell(
        "trap 'echo tidy; exit 5' TERM; echo ready; while :; do sleep 0.01; done", timeout_s=2
    )
    assert finished == FinishedCommand(exit=ProcessExit(code=5), timed_out=True)
    assert output.head.endswith(b"tidy\n")


# Each leaves a process that a signal to the shell, or to its group, would not reach.
ESCAPES = {
    "child": "sleep 600 & echo $! >&9; wait",
    "own session": "setsid sleep 600 & echo $! >&9; wait",
    "double fork": "(setsid bash -c 'echo $$ >&9; exec sleep 600' &) ; sleep 600",
    "deaf": "trap '' TERM HUP; sleep 600 & echo $! >&9; wait; wait",
    "stopped": "sleep 600 & kill -STOP $!; echo $! >&9; wait",
    "empty environment": "env -i setsid sh -c '(setsid sh -c \"echo \\$\\$ >&9; exec sleep 600\" &)'; sleep 600",
}


@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES.keys())
def test_cancelling_ends_the_whole_tree(command: str) -> None:
    async def go() -> None:
        there, ours = os.pipe()
        async with launching() as launcher:
            task = asyncio.create_task(
                run(
                    launcher, ["bash", "-c", command],
                    cwd="/", env=ENVIRONMENT, stdout=ProcessOutput(keep_bytes=9), descriptors={9: ours},
                )
            )  # fmt: skip
            (pid,) = await asyncio.to_thread(read_pids, there, 1)
            assert lives(pid)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not lives(pid)
            assert launcher.living == 0
        os.close(there)
        os.close(ours)

    asyncio.run(go())


@pytest.mark.parametrize("adopts", [True, False])
def test_closing_ends_what_was_left_in_the_background(adopts: bool) -> None:
    finished, output = in_shell("sleep 600 & echo $!", adopts=adopts)
    assert finished.exit.code == 0
    wait_ended(int(output.head))


def test_a_command_that_kills_its_watcher_is_ended_with_all_it_began() -> None:
    async def go() -> None:
        there, ours = os.pipe()
        command = "setsid sleep 600 & echo $! >&9; kill -9 $PPID; sleep 600"
        async with launching() as launcher:
            # It may be quicker than the watcher, who then never says that it started.
            with contextlib.suppress(OutsideError):
                finished = await run(
                    launcher, ["bash", "-c", command],
                    cwd="/", env=ENVIRONMENT, stdout=ProcessOutput(keep_bytes=9), descriptors={9: ours},
                )  # fmt: skip
                assert finished.exit.signal == "SIGKILL"
            (pid,) = read_pids(there, 1)
        wait_ended(pid)
        os.close(there)
        os.close(ours)

    asyncio.run(go())


@pytest.mark.parametrize("stopped", ["$PPID", "$PPID $(ps -o ppid= -p $PPID)"])
def test_a_command_that_stops_its_watcher_is_ended_all_the_same(stopped: str) -> None:
    finished, output = in_shell(
        f"sleep 600 & echo $! $$; kill -STOP {stopped}; sleep 600", timeout_s=1
    )
    assert finished.timed_out
    for pid in map(int, bytes(output.head).split()):
        wait_ended(pid)


def test_a_keeper_that_is_stopped_before_a_start_is_told_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def go() -> None:
        async with launching() as launcher:
            sends = Launcher._send

            def stopped(self: Launcher, descriptors: list[int]) -> None:
                sends(self, descriptors)
                os.kill(launcher._keeper, signal.SIGSTOP)

            monkeypatch.setattr(Launcher, "_send", stopped)
            assert (await shell(launcher, "exit 3")).exit.code == 3

    asyncio.run(go())


def test_a_keeper_that_was_killed_is_replaced() -> None:
    async def go() -> None:
        async with launching() as launcher:
            assert (await shell(launcher, "exit 1")).exit.code == 1
            os.kill(launcher._keeper, signal.SIGKILL)
            wait_ended(launcher._keeper)
            assert (await shell(launcher, "exit 2")).exit.code == 2

    asyncio.run(go())


def parent_of(output: ProcessOutput) -> int:
    return int(bytes(output.head).split()[0])


async def watcher_of(launcher: Launcher, command: str = ":") -> int:
    output = ProcessOutput(keep_bytes=100)
    finished = await shell(launcher, f"echo $PPID; {command}", output)
    assert finished.exit.code == 0
    return parent_of(output)


def test_a_watcher_with_nothing_left_takes_the_next_child_and_no_other_does() -> None:
    async def go() -> None:
        async with launching() as launcher:
            first = await watcher_of(launcher)
            assert await watcher_of(launcher) == first
            assert await watcher_of(launcher, "sleep 600 & disown") == first
            assert launcher.living == 1
            assert await watcher_of(launcher) != first
        wait_ended(first)

    asyncio.run(go())


def test_a_watcher_killed_while_it_waits_is_passed_over() -> None:
    async def go() -> None:
        async with launching() as launcher:
            first = await watcher_of(launcher)
            os.kill(first, signal.SIGKILL)
            wait_ended(first)
            assert await watcher_of(launcher) != first

    asyncio.run(go())


def test_what_a_killed_watcher_held_ends_though_the_keeper_was_killed_too() -> None:
    async def go() -> None:
        async with launching() as launcher:
            child = await launcher.spawn(["sleep", "600"], cwd="/", env=ENVIRONMENT, descriptors={})
            watcher, keeper = read_parent(child.pid), launcher._keeper
            os.kill(keeper, signal.SIGKILL)
            wait_ended(keeper)
            os.kill(watcher, signal.SIGKILL)
            await child.wait_gone()
            wait_ended(child.pid)
            assert await child.wait() == ProcessExit(code=137, signal="SIGKILL")

    asyncio.run(go())


def test_those_that_wait_under_a_killed_keeper_are_let_go() -> None:
    async def go() -> None:
        async with launching() as launcher:
            first = await watcher_of(launcher)
            os.kill(launcher._keeper, signal.SIGKILL)
            wait_ended(launcher._keeper)
            assert await watcher_of(launcher) != first
            wait_ended(first)

    asyncio.run(go())


@pytest.mark.parametrize("grace_s", [0, 5])
def test_an_order_to_end_what_has_just_ended_does_not_meet_the_next(grace_s: float) -> None:
    async def go() -> None:
        async with launching() as launcher:
            child = await launcher.spawn(["true"], cwd="/", env=ENVIRONMENT, descriptors={})
            wait_ended(child.pid)
            child.end(grace_s=grace_s)
            await child.wait_gone()
            assert (await shell(launcher, "sleep 0.1; exit 4")).exit.code == 4

    asyncio.run(go())


def test_an_environment_larger_than_the_socket_arrives_whole() -> None:
    async def go() -> None:
        output = ProcessOutput(keep_bytes=100)
        many = {f"V{i}": "x" * 10_000 for i in range(100)}
        async with launching() as launcher:
            for _ in range(2):
                await run(
                    launcher, ["bash", "-c", "cat; echo ${#V0} ${#V99}"],
                    cwd="/", env={**ENVIRONMENT, **many}, stdout=output,
                )  # fmt: skip
        assert bytes(output.head) == b"10000 10000\n" * 2

    asyncio.run(go())


def test_a_watcher_that_dies_before_it_starts_anything_is_an_error_of_the_outside() -> None:
    async def go() -> None:
        async with launching() as launcher:
            launcher.start()
            os.kill(launcher._keeper, signal.SIGSTOP)
            task = asyncio.create_task(shell(launcher, "exit 0"))
            await asyncio.sleep(0)
            assert launcher.living == 1
            os.kill(launcher._keeper, signal.SIGKILL)
            with pytest.raises(OutsideError, match="watches the command"):
                await task
            assert (await shell(launcher, "exit 3")).exit.code == 3

    asyncio.run(go())


def test_a_long_command_is_told_of_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.system.process.run.TICK_S", 0.01)

    async def go() -> None:
        there, ours = os.pipe()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            ticks += 1
            if ticks == 3:
                os.write(ours, b"go\n")

        async with launching() as launcher:
            await run(
                launcher, ["bash", "-c", "read line <&9"],
                cwd="/", env=ENVIRONMENT, stdout=ProcessOutput(keep_bytes=9), tick=tick,
                descriptors={9: there},
            )  # fmt: skip
        assert ticks >= 3
        os.close(there)
        os.close(ours)

    asyncio.run(go())


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_many_children_at_once_leave_no_descriptor_and_no_process() -> None:
    async def go() -> None:
        async with launching() as launcher:
            await asyncio.gather(*(shell(launcher, ":") for _ in range(IDLE_MOST)))
            before = len(open_descriptors())
            done = await asyncio.gather(*(shell(launcher, f"exit {i}") for i in range(60)))
            assert [finished.exit.code for finished in done] == list(range(60))
            for _ in range(20):
                task = asyncio.create_task(shell(launcher, "sleep 600 & sleep 600"))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            # A cancelled start is ended by its watcher, which lets go when all is gone.
            assert launcher.living == 0
            assert len(open_descriptors()) <= before
            keeper = launcher._keeper
        wait_ended(keeper)
        assert not lives(keeper)

    asyncio.run(go())
