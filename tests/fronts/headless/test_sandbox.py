"""The sandbox in a session: settings, modes, no way to turn it off, and its messages."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.parts.sandbox import NO_SANDBOX, PROMISED
from clew.testing.server import serving
from tests.fronts.headless.clew_process import command, environment, transcripts
from tests.requirements import requirement
from tests.system.sandbox import no_landlock
from tests.system.sandbox.walls import can
from tests.wording import head

Json = dict[str, Any]
WORKS = can("bubblewrap") or can("landlock")
ON: Json = {"enabled": True}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def settings(home: Path, sandbox: Json, *, of: str = "config", **more: Any) -> None:
    write(home / of / "settings.json", json.dumps({"sandbox": sandbox} | more))


def trust(home: Path) -> None:
    store = {"folders": [str((home / "work").resolve())]}
    write(home / "config" / "clew" / "trust.json", json.dumps(store))


def bash(text: str, **more: Any) -> Json:
    return {"content": [{"tool": "Bash", "input": {"command": text} | more}]}


def run(
    home: Path,
    *answers: Json,
    args: tuple[str, ...] = (),
    without_walls: bool = False,
    prompt: str = "go",
) -> tuple[subprocess.CompletedProcess[str], list[Json]]:
    """Return one run, and the results that the model read."""
    plan = {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}
    (home / "work").mkdir(exist_ok=True)
    with serving(plan, strict=True) as server:
        variables = environment(home, server.url)
        program = command("-p", prompt, *args)
        if without_walls:
            # A kernel without Landlock, and a bwrap that the system does not let do its work.
            fake = write(home / "bin" / "bwrap", "#!/bin/sh\necho 'not permitted' >&2; exit 1\n")
            fake.chmod(0o755)
            variables["PATH"] = f"{fake.parent}:{variables['PATH']}"
            program = [sys.executable, no_landlock.__file__, *program]
        done = subprocess.run(
            program,
            cwd=home / "work",
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        messages = server.requests[-1].body["messages"] if server.requests else []
    return done, [
        block
        for message in messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]


def said(results: list[Json]) -> str:
    return "\n".join(json.dumps(result["content"], ensure_ascii=False) for result in results)


@requirement("R220")
def test_a_command_is_in_the_sandbox_where_settings_say_so(tmp_path: Path) -> None:
    settings(tmp_path, ON)
    outside = tmp_path / "outside"
    done, results = run(tmp_path, bash(f"echo in > inside; echo out > {outside}"))
    assert not outside.exists()
    if WORKS:
        assert (tmp_path / "work" / "inside").read_text("utf-8") == "in\n"
        assert f"writing {outside} (sandbox.filesystem.allowWrite)" in said(results)
    else:
        assert not (tmp_path / "work" / "inside").exists()
        assert head(PROMISED) in said(results)
        assert f"{NO_SANDBOX}, so no command will run" in done.stderr


@requirement("R220")
def test_where_no_walls_hold_a_promised_sandbox_runs_nothing(tmp_path: Path) -> None:
    settings(tmp_path, ON)
    args = ("--allowedTools", "Bash")
    done, results = run(
        tmp_path,
        bash("touch ran"),
        bash("touch ran", run_in_background=True),
        args=args,
        without_walls=True,
    )
    assert not (tmp_path / "work" / "ran").exists()
    assert head(PROMISED) in said(results)
    assert (
        f"{NO_SANDBOX}, so no command will run: bubblewrap: not permitted; landlock: the ker"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("sandbox", "more"),
    [
        ({"enabled": True, "failIfUnavailable": False}, ()),
        ({}, ("--permission-mode", "auto")),
    ],
)
def test_where_none_was_promised_the_run_says_that_there_is_none(
    tmp_path: Path, sandbox: Json, more: tuple[str, ...]
) -> None:
    settings(tmp_path, sandbox)
    done, _ = run(
        tmp_path, bash("touch ran"), args=("--allowedTools", "Bash", *more), without_walls=True
    )
    assert (tmp_path / "work" / "ran").exists()
    assert f"{NO_SANDBOX}, so commands will run without one" in done.stderr


def test_what_is_named_may_be_written(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    settings(
        tmp_path, ON | {"filesystem": {"allowWrite": ["~/other"], "denyWrite": ["~/work/kept"]}}
    )
    (tmp_path / "work" / "kept").mkdir(parents=True)
    run(tmp_path, bash(f"echo a > {other}/a; echo b > kept/b; true"))
    assert (other / "a").exists() is WORKS
    if can("bubblewrap"):
        assert not (tmp_path / "work" / "kept" / "b").exists()


def test_the_shell_moves_in_the_sandbox_too(tmp_path: Path) -> None:
    settings(tmp_path, ON)
    run(tmp_path, bash("mkdir -p sub && cd sub"), bash("touch here"))
    assert (tmp_path / "work" / "sub" / "here").exists() is WORKS


def test_secrets_of_the_home_folder_and_what_rules_deny_are_not_read(tmp_path: Path) -> None:
    write(tmp_path / ".ssh" / "id_ed25519", "ssh-secret-1")
    write(tmp_path / "config" / "clew" / "credentials", "clew-secret-2")
    write(tmp_path / "work" / ".env", "env-secret-3")
    settings(tmp_path, ON, permissions={"deny": ["Read(.env)"]})
    script = write(tmp_path / "work" / "look.py", (
        "import pathlib, os\n"
        "for name in ('../.ssh/id_ed25519', '../config/clew/credentials', '.env'):\n"
        "    try: print(pathlib.Path(name).read_text())\n"
        "    except OSError as error: print('no')\n"
        "print(os.environ.get('ANTHROPIC_API_KEY'))\n"
    ))  # fmt: skip
    _, results = run(tmp_path, bash(f"python3 {script.name}"))
    words = said(results)
    assert "secret" not in words
    assert "sk-ant" not in words
    if WORKS:
        assert words == '"no\\nno\\nno\\nNone"'


@pytest.mark.parametrize("rule", ["**.env", "**/**/.env", "./.env/**", "//**/work/.env", "./**"])
def test_a_denied_pattern_is_in_the_sandbox_however_it_is_written(
    tmp_path: Path, rule: str
) -> None:
    write(tmp_path / "work" / ".env", "env-secret-3")
    settings(tmp_path, ON, permissions={"deny": [f"Read({rule})"]})
    write(tmp_path / "look.py", f"print(open('{tmp_path}/work/.env').read())\n")
    _, results = run(tmp_path, bash("python3 ../look.py"))
    assert results
    assert "secret" not in said(results)


@pytest.mark.parametrize("rule", ["./.", ".", "//", "//**", "[", "~/**x/***"])
def test_no_denied_pattern_keeps_a_session_from_starting(tmp_path: Path, rule: str) -> None:
    settings(tmp_path, ON, permissions={"deny": [f"Read({rule})"]})
    done, _ = run(tmp_path, {"text": "Well."})
    assert (done.returncode, done.stdout) == (0, "Well.\n"), done.stderr


def test_sandboxed_commands_are_not_asked_about_unless_settings_want_it(tmp_path: Path) -> None:
    settings(tmp_path, ON)
    run(tmp_path, bash("touch made"))
    assert (tmp_path / "work" / "made").exists() is WORKS
    settings(tmp_path, ON | {"autoAllowBashIfSandboxed": False})
    _, results = run(tmp_path, bash("touch asked"))
    assert not (tmp_path / "work" / "asked").exists()
    assert "did not run" in said(results)
    settings(tmp_path, ON, permissions={"deny": ["Bash(touch *)"]})
    run(tmp_path, bash("touch denied"))
    assert not (tmp_path / "work" / "denied").exists()


@pytest.mark.parametrize("mode", ["auto", "default"])
def test_mode_auto_has_walls_by_itself(tmp_path: Path, mode: str) -> None:
    settings(tmp_path, {})
    outside = tmp_path / "outside"
    args = ("--permission-mode", mode, "--allowedTools", "Bash(echo *)", "--add-dir", str(tmp_path))
    run(tmp_path, bash(f"echo out > {tmp_path}/.ssh-like"), args=args)
    run(tmp_path, bash(f"cat {outside}"), args=args)
    write(tmp_path / ".ssh" / "id", "ssh-secret-1")
    script = write(tmp_path / "work" / "look.py", "print(open('../.ssh/id').read())\n")
    args = ("--permission-mode", mode, "--allowedTools", "Bash(python3 *)")
    _, results = run(tmp_path, bash(f"python3 {script.name}"), args=args)
    assert ("ssh-secret-1" in said(results)) is not (WORKS and mode == "auto")


def test_the_model_has_no_switch(tmp_path: Path) -> None:
    """Not by a call's input, by settings that it may write, or by what is started for it later."""
    settings(tmp_path, ON)
    outside = tmp_path / "outside"
    off = json.dumps(
        {
            "sandbox": {
                "enabled": False,
                "excludedCommands": ["*"],
                "filesystem": {"allowWrite": ["/"]},
            }
        }
    )
    write(tmp_path / "work" / ".claude" / "settings.json", "{}")
    trust(tmp_path)
    out = f"echo out > {outside}"
    run(
        tmp_path,
        bash(out, dangerouslyDisableSandbox=True),
        bash(f"mkdir -p .claude; echo '{off}' > .claude/settings.local.json; {out}"),
        bash(out),
        bash(f"echo '{off}' > ../config/settings.json; {out}"),
        bash(f"{out} & wait"),
        bash(f"setsid sh -c '{out}'; nohup sh -c '{out}'"),
        bash(out, run_in_background=True),
    )
    assert not outside.exists()
    assert json.loads((tmp_path / "config" / "settings.json").read_text("utf-8"))["sandbox"] == ON
    # And if a folder's files say so all the same, they are not heeded the next time either.
    write(tmp_path / "work" / ".claude" / "settings.local.json", off)
    done, _ = run(tmp_path, bash(out))
    assert not outside.exists()
    assert "sandbox.enabled: ignored because" in done.stderr


def test_a_background_command_is_in_the_sandbox_as_well(tmp_path: Path) -> None:
    settings(tmp_path, ON)
    outside = tmp_path / "outside"
    run(tmp_path, bash(f"echo in > inside; echo out > {outside}", run_in_background=True))
    assert (tmp_path / "work" / "inside").exists() is WORKS
    assert not outside.exists()


def test_commands_that_settings_name_are_outside_and_only_whole(tmp_path: Path) -> None:
    settings(tmp_path, ON | {"excludedCommands": ["touch"]})
    args = ("--allowedTools", "Bash")
    run(tmp_path, bash(f"touch {tmp_path}/one"), args=args)
    run(tmp_path, bash(f"touch {tmp_path}/two; cp look {tmp_path}/three"), args=args)
    assert (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()


def test_settings_of_the_sandbox_that_cannot_be_read_leave_it_on(tmp_path: Path) -> None:
    settings(tmp_path, {"enabled": False, "filesystem": {"allowWrite": "/"}})
    outside = tmp_path / "outside"
    done, _ = run(tmp_path, bash(f"echo out > {outside}"), args=("--allowedTools", "Bash"))
    assert not outside.exists()
    assert "and the sandbox is on" in done.stderr


def test_hosts_that_are_not_named_are_reported(tmp_path: Path) -> None:
    settings(tmp_path, ON | {"network": {"allowedDomains": ["example.invalid"]}})
    look = (
        "import urllib.request\n"
        "try: urllib.request.urlopen('http://other.invalid/', timeout=20)\n"
        "except OSError as error: raise SystemExit(str(error))\n"
    )
    write(tmp_path / "work" / "look.py", look)
    _, results = run(tmp_path, bash("python3 look.py"))
    if WORKS:
        assert "reaching other.invalid (sandbox.network.allowedDomains)" in said(results)


def test_a_transcript_of_it_is_one_like_any_other(tmp_path: Path) -> None:
    settings(tmp_path, ON)
    run(tmp_path, bash("echo hello"))
    (transcript,) = transcripts(tmp_path)
    assert "hello" in transcript.read_text("utf-8") or not WORKS
