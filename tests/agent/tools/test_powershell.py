"""PowerShell if it is installed; here a stand-in that decodes and shows its arguments."""

from pathlib import Path

import pytest

from clew.agent.tools.background_tools import TaskOutput
from clew.agent.tools.bash import PowerShell
from clew.agent.tools.registry import Toolbox, make_builtin_tools
from tests.agent.tools.workshop import Workshop, call_of

STAND_IN = """#!/bin/sh
echo "$1 $2 $3 $4 in $(pwd)"
printf %s "$5" | base64 -d | tr -d '\\0'
echo
case $(printf %s "$5" | base64 -d | tr -d '\\0') in *fail*) exit 3;; *wait*) sleep 600;; esac
"""


@pytest.fixture
def installed(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    path = workshop.write("bin/pwsh", STAND_IN)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{workshop.session.shell.environment['PATH']}")
    return workshop


def test_it_is_there_where_the_program_is(
    installed: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Toolbox(make_builtin_tools()).get("PowerShell") is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Toolbox(make_builtin_tools()).get("PowerShell") is None
    said = installed.use(PowerShell(), command="Get-Date")
    assert "PowerShell is no longer installed" in str(said.content)


def test_the_command_arrives_as_it_was_written(installed: Workshop) -> None:
    result = installed.use(PowerShell(), command="Write-Output \"a  $b\" | % { 'ä' }\n# 2")
    first, *rest = str(result.content).split("\n")
    assert first == (f"-NoLogo -NoProfile -NonInteractive -EncodedCommand in {installed.folder}")
    assert rest[0].startswith('Write-Output "a  $b" | % {')
    assert result.tool_use_result["stdout"] == result.content


def test_its_failures_times_and_background_are_those_of_every_command(installed: Workshop) -> None:
    failed = installed.use(PowerShell(), command="fail")
    assert failed.is_error
    assert str(failed.content).startswith("Exit code 3\n")
    late = installed.use(PowerShell(), command="wait", timeout=300)
    assert "Timed out after 0.3 s" in str(late.content)

    async def behind() -> str:
        from clew.agent.calls import run_tool

        given = {"command": "wait", "run_in_background": True, "timeout": 300}
        begun = await run_tool(call_of(PowerShell(), given), installed.context())
        task = begun.tool_use_result["backgroundTaskId"]
        ended = await run_tool(call_of(TaskOutput(), {"task_id": task}), installed.context())
        return str(ended.content)

    assert "Timed out after 0.3 s" in installed.use_later(behind)


def test_what_it_is_for_the_executor() -> None:
    given = PowerShell().input_type(command="Get-Date\n# more", description=None)
    assert not PowerShell().is_read_only(given)
    assert PowerShell().is_destructive(given)
    assert PowerShell().title(given) == "Get-Date"
