"""A plugin in the published layout, from its marketplace to a session and out again."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.core.messages.errors import UserError
from clew.parts.plugins.fetch import LEADS_OUT, unpack
from clew.parts.plugins.parts import CODE_DISABLED, NOTHING
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.terminal import Terminal

Json: TypeAlias = dict[str, Any]
PUBLISHED = Path(__file__).parent / "published"
LANGUAGE_SERVER = Path(__file__).parents[2] / "parts" / "lsp" / "server_program.py"
FINE = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}
ID = "toolkit@square"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(PUBLISHED, tmp_path / "work" / "square")
    return tmp_path


def plugin(home: Path, *args: str, fails: bool = False) -> str:
    done = clew(home, "http://127.0.0.1:9", "plugin", *args)
    assert (done.returncode != 0) is fails, done.stderr + done.stdout
    return done.stdout + done.stderr


def run(home: Path, *args: str, plan: Any = FINE) -> tuple[str, list[Json]]:
    with serving(plan, strict=True) as server:
        done = clew(home, server.url, "-p", *args)
        return done.stderr, [request.body for request in server.requests]


def said(body: Json) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def installed(home: Path, *more: str) -> None:
    plugin(home, "marketplace", "add", "./square")
    plugin(home, "install", "toolkit", *more)


def git(folder: Path, *args: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *identity, *args],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout.strip()


def test_installing_tells_what_a_plugin_adds_and_runs_none_of_it(home: Path) -> None:
    assert "2 plugins\n! plugins[2]: zipped: source: expected one of" in plugin(
        home, "marketplace", "add", "./square"
    )
    told = plugin(home, "marketplace", "list")
    assert "2 plugins" in told
    assert "toolkit:" not in told
    assert "toolkit: Everything a plugin can bring" in plugin(home, "marketplace", "list", "square")
    unknown = plugin(home, "marketplace", "list", "circle", fails=True)
    assert "circle" in unknown
    told = plugin(home, "install", "toolkit")
    assert f"installed {ID} at 1.2.0" in told
    assert "commands: greet, extra" in told
    assert "skills: release" in told
    assert "agents: auditor" in told
    assert "output styles: pirate" in told
    assert "UserPromptSubmit hook: echo from-the-hook" in told
    assert "MCP server memo: python3 " in told
    assert "language server gopls: gopls serve" in told
    assert f"clew plugin trust {ID}" in told
    warned, (body,) = run(home, "/toolkit:greet Ada")
    assert "its programs don't start: the plugin's current content is not trusted" in warned
    assert "Greet Ada from the plugin" in said(body)
    assert "from-the-hook" not in said(body)
    assert not (home / "work" / "hook-ran").exists()
    assert "mcp__plugin_toolkit_memo__recall" not in json.dumps(body)
    _, bodies = run(home, "/toolkit:release")
    assert bodies == []
    assert not (home / "work" / "released.txt").exists()


def test_a_plugin_that_is_trusted_runs_until_it_changes(home: Path) -> None:
    installed(home)
    assert f"{ID} is trusted" in plugin(home, "trust", ID, "--trust")
    assert "(on, trusted)" in plugin(home, "list")
    calls = {"content": [{"tool": "mcp__plugin_toolkit_memo__recall", "input": {}}]}
    plan = {"scenario": 1, "answers": [calls, {"text": "Done.", "times": "always"}]}
    warned, bodies = run(home, "go", "--allowedTools", "mcp__plugin_toolkit_memo", plan=plan)
    assert warned == ""
    assert "from-the-hook of " in said(bodies[0])
    assert "the combination is 1234" in said(bodies[1])
    assert "- toolkit:release: Makes a release." in said(bodies[0])
    assert "toolkit:auditor" in json.dumps(bodies[0])
    _, (body,) = run(home, "/toolkit:release")
    assert "Release: yes" in said(body)
    (copy,) = (home / "config" / "clew" / "plugins" / "copies" / ID).iterdir()
    (copy / "hooks" / "hooks.json").write_text('{"hooks": {}}', "utf-8")
    warned, _ = run(home, "go")
    assert f"clew plugin trust {ID}" in warned
    assert CODE_DISABLED in plugin(home, "list")


def test_a_plugin_is_switched_off_and_on_and_taken_away_whole(home: Path) -> None:
    installed(home, "--trust")
    assert "is disabled" in plugin(home, "disable", "toolkit")
    warned, bodies = run(home, "/toolkit:greet Ada")
    assert (warned.count("\n"), bodies) == (1, [])
    assert "/toolkit:greet" in warned
    plugin(home, "enable", "toolkit", "--scope", "local")
    gone = plugin(home, "remove", "toolkit")
    assert str(home / "config" / "settings.json") in gone
    assert str(home / "work" / ".claude" / "settings.local.json") in gone
    left = home / "config" / "clew" / "plugins"
    assert list((left / "copies").iterdir()) == []
    assert "toolkit" not in (left / "installed.json").read_text("utf-8")
    assert "no plugins" in plugin(home, "list")
    assert '"toolkit"' in plugin(home, "remove", "toolkit", fails=True)
    plugin(home, "marketplace", "remove", "square")
    assert "no marketplaces" in plugin(home, "marketplace", "list")


def test_a_repository_is_installed_updated_and_pinned(home: Path) -> None:
    repository = home / "work" / "square" / "toolkit"
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "one")
    first = git(repository, "rev-parse", "HEAD")
    url = f"file://{repository}"
    assert first[:12] in plugin(home, "install", url, "--trust")
    (repository / "commands" / "new.md").write_text("New.", "utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "two")
    plugin(home, "pin", "toolkit")
    assert "clew plugin unpin toolkit@local" in plugin(home, "update", "toolkit", fails=True)
    assert "clew plugin unpin toolkit@local" in plugin(home, "install", url, fails=True)
    assert "new" not in plugin(home, "list")
    plugin(home, "unpin", "toolkit")
    assert "new" in plugin(home, "update", "toolkit")
    assert CODE_DISABLED in plugin(home, "list")
    assert first in plugin(home, "pin", "toolkit", first)
    assert "pinned" in plugin(home, "list")
    warned, bodies = run(home, "/toolkit:new")
    assert bodies == []
    assert "/toolkit:new" in warned


NPM = """#!/bin/sh
echo "$@" >> "$HOME/npm-said"
for last; do true; done
case "$last" in
  far@9*) echo "npm error code E404" >&2; exit 1 ;;
esac
while [ "$1" != --pack-destination ]; do shift; done
tar -czf "$2/far.tgz" -C "$HOME/packed" package
"""


def npm_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(home / "work" / "square" / "toolkit", home / "packed" / "package")
    (home / "packed" / "package" / "package.json").write_text(
        '{"name": "far", "scripts": {"prepare": "touch ran", "postinstall": "touch ran"}}', "utf-8"
    )
    (home / "packed" / "package" / "out").symlink_to("/etc")
    program = home / "programs" / "npm"
    program.parent.mkdir()
    program.write_text(NPM, "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_package_is_unpacked_and_nothing_of_it_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_there(home, monkeypatch)
    plugin(home, "marketplace", "add", "./square")
    told = plugin(home, "install", "far")
    assert "installed toolkit@square at 1.2.0" in told
    (copy,) = (home / "config" / "clew" / "plugins" / "copies" / ID).iterdir()
    assert (copy / "scripts" / "server.py").is_file()
    assert not (copy / "out").is_symlink()
    said_to_npm = (home / "npm-said").read_text("utf-8")
    assert said_to_npm.startswith("pack --ignore-scripts --pack-destination ")
    assert said_to_npm.endswith("-- far\n")
    _, (body,) = run(home, "/toolkit:greet Ada")
    assert "Greet Ada from the plugin" in said(body)
    assert "npm pack failed: npm error code E404" in plugin(
        home, "install", "npm:far@9.9.9", fails=True
    )
    assert "which has no commits" in plugin(home, "pin", "toolkit", "a" * 40, fails=True)
    plugin(home, "update", "toolkit")
    wrong = plugin(home, "install", "npm:git+ssh://host/x", fails=True)
    assert "expected a package name" in wrong
    monkeypatch.setenv("PATH", str(home / "nothing"))
    assert "npm is required but cannot be run" in plugin(home, "install", "npm:far", fails=True)


@pytest.mark.parametrize(
    ("name", "kind", "size", "why"),
    [
        ("package/../../x.md", tarfile.REGTYPE, 1, "is outside the package"),
        ("package/vast.md", tarfile.REGTYPE, 1 << 40, "too large for a plugin"),
        ("package/cut.md", tarfile.REGTYPE, 1 << 20, "cannot be unpacked"),
    ],
)
def test_an_archive_that_is_odd_leaves_nothing_outside(
    tmp_path: Path, name: str, kind: bytes, size: int, why: str
) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    archive = tmp_path / "a.tgz"
    archive.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + b"x" * 512))
    with pytest.raises(UserError, match=why):
        unpack(archive, tmp_path / "made" / "whole", "npm:far")
    assert not (tmp_path / "x.md").exists()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, b"Z"])
def test_what_is_no_file_of_an_archive_counts_too(tmp_path: Path, kind: bytes) -> None:
    beside, file = tarfile.TarInfo("package/x"), tarfile.TarInfo("package/a.md")
    beside.type, beside.size = kind, 2 << 20
    archive = tmp_path / "a.tgz"
    for count, why in {1: "too large for a plugin", 2000: ": "}.items():
        beside.size = (2 << 20) // count
        one = beside.tobuf() + bytes(beside.size + -beside.size % 512)
        archive.write_bytes(gzip.compress(one * count + file.tobuf()))
        with pytest.raises(UserError, match=why):
            unpack(archive, tmp_path / "made" / "whole", "npm:far")
    assert list(tmp_path.rglob("*.md")) == []


@pytest.mark.parametrize("leads", ["/etc/passwd", "../../../work", "agents/../../../../../etc"])
def test_a_link_that_leads_out_of_a_plugin_is_not_installed(home: Path, leads: str) -> None:
    (home / "work" / "square" / "toolkit" / "commands" / "key.md").symlink_to(leads)
    plugin(home, "marketplace", "add", "./square")
    refused = plugin(home, "install", "toolkit", fails=True)
    out = f"commands/key.md {LEADS_OUT}"
    assert out in refused
    assert out in plugin(home, "check", "./square/toolkit", fails=True)
    assert "no plugins" in plugin(home, "list")


def test_an_archive_that_is_garbled_after_its_first_file_is_said(tmp_path: Path) -> None:
    first, second = tarfile.TarInfo("package/a.md"), tarfile.TarInfo("package/b.md")
    second.size = 1 << 20
    packing = zlib.compressobj(wbits=31)
    begun = packing.compress(first.tobuf() + second.tobuf() + b"x" * 100_000)
    begun += packing.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "a.tgz").write_bytes(begun + b"\xff" * 100)
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(tmp_path / "a.tgz", tmp_path / "made", "npm:far")


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(tmp_path / "a.tgz", tmp_path / "made", "npm:far")


def test_a_host_names_a_folder_and_sees_all_of_it(home: Path) -> None:
    folder = home / "work" / "square" / "toolkit"
    (home / "config").mkdir()
    (home / "config" / "settings.json").write_text('{"outputStyle": "toolkit:pirate"}', "utf-8")
    with (
        serving(FINE, strict=True) as server,
        Hosted(home, server.url, "--plugin-dir", str(folder)) as host,
    ):
        answer = host.ask("initialize")["response"]
        host.say("/toolkit:greet Ada")
        host.result()
        assert host.end() == 0
        (body,) = (request.body for request in server.requests)
    init = next(f for f in host.frames if f.get("subtype") == "init")
    assert init["plugins"] == [{"name": "toolkit", "path": str(folder), "version": "1.2.0"}]
    assert "toolkit:release" in init["skills"]
    assert {"toolkit:greet", "toolkit:extra"} <= set(init["slash_commands"])
    assert "toolkit:auditor" in init["agents"]
    assert init["output_style"] == "toolkit:pirate"
    assert "toolkit:Pirate" in answer["available_output_styles"]
    assert "Speak like a pirate." in json.dumps(body["system"])
    assert str(folder) in said(body)


def reloaded(host: Hosted) -> str:
    before = len(host.frames)
    host.say("/reload-plugins")
    host.result()
    return json.dumps(host.frames[before:], ensure_ascii=False)


def test_a_running_session_takes_in_what_was_installed_and_lets_go_of_what_is_gone(
    home: Path,
) -> None:
    toolkit = home / "work" / "square" / "toolkit"
    program = {"command": sys.executable, "args": [str(LANGUAGE_SERVER)]}
    entry = program | {"extensionToLanguage": {".txt": "plaintext"}}
    (toolkit / ".lsp.json").write_text(json.dumps({"words": entry}), "utf-8")
    (home / "work" / "a.txt").write_text("BAD\n", "utf-8")
    asked = {"operation": "diagnostics", "file_path": "a.txt"}
    found = {"tool": "ToolSearch", "input": {"query": "select:LSP"}}
    recall = {"tool": "mcp__plugin_toolkit_memo__recall", "input": {}}
    plan = {
        "scenario": 1,
        "answers": [
            {"text": "Nothing there."},
            {"content": [found]},
            {"content": [{"tool": "LSP", "input": asked}, recall]},
            {"text": "Used."},
            {"content": [recall]},
            {"text": "Gone."},
        ],
    }
    with (
        serving(plan, strict=True) as server,
        Hosted(home, server.url, "--allowedTools", "mcp__plugin_toolkit_memo") as host,
    ):
        host.ask("initialize")
        host.say("go")
        host.result()
        installed(home, "--trust")
        told = reloaded(host)
        assert "1 plugins" in told
        assert "started MCP server plugin:toolkit:memo" in told
        host.say("go on")
        assert host.result()["result"] == "Used."
        used = [request.body for request in server.requests][-1]
        assert "from-the-hook of " in said(used)
        assert "the combination is 1234" in said(used)
        assert "a.txt:1:1: error: BAD is wrong" in said(used)
        assert "- toolkit:release: Makes a release." in said(used)
        assert "toolkit:auditor" in said(used)
        skills = host.ask("reload_skills")["response"]["skills"]
        assert [skill["name"] for skill in skills].count("toolkit:release") == 1
        plugin(home, "remove", "toolkit")
        told = reloaded(host)
        assert "0 plugins" in told
        assert "stopped MCP server plugin:toolkit:memo" in told
        host.say("/output-style")
        host.result()
        assert "pirate" not in json.dumps(host.frames[-4:]).lower()
        host.say("go on")
        assert host.result()["result"] == "Gone."
        last = [request.body for request in server.requests][-1]
        after = json.dumps(last["messages"][len(used["messages"]) :])
        assert "the combination is" not in after
        assert "from-the-hook of " not in after
        assert "toolkit:auditor" in after  # told as gone
        assert host.end() == 0


def test_plugins_of_another_tool_are_read_and_left_alone(home: Path) -> None:
    record = home / "config" / "plugins" / "installed_plugins.json"
    record.parent.mkdir(parents=True)
    folder = str(home / "work" / "square" / "toolkit")
    entry = {"scope": "user", "installPath": folder, "version": "1.2.0"}
    record.write_text(json.dumps({"version": 2, "plugins": {ID: [entry]}}), "utf-8")
    settings = home / "config" / "settings.json"
    settings.write_text(json.dumps({"enabledPlugins": {ID: True, "gone@x": True}}), "utf-8")
    before = record.read_bytes()
    assert f"(on, {CODE_DISABLED}, installed by another program)" in plugin(home, "list")
    warned, (body,) = run(home, "/toolkit:greet Ada")
    assert "plugin gone@x is enabled but not installed" in warned
    assert "Greet Ada" in said(body)
    plugin(home, "trust", ID, "--trust")
    _, (body,) = run(home, "go")
    assert "from-the-hook" in said(body)
    assert "installed by another tool" in plugin(home, "remove", ID, fails=True)
    assert record.read_bytes() == before


def test_a_user_sees_what_it_runs_and_says_yes(home: Path) -> None:
    plugin(home, "marketplace", "add", "./square")
    with Terminal(home, "http://127.0.0.1:9", "plugin", "install", "toolkit") as screen:
        screen.expect("[y/N]")
        screen.type("y\n")
        screen.expect(f"installed {ID}")
        assert screen.end() == 0
        assert screen.all.count("UserPromptSubmit hook") == 1
    assert "(on, trusted)" in plugin(home, "list")


def test_what_waits_for_trust_is_said_to_wait_and_told_of_once(home: Path) -> None:
    plugin(home, "marketplace", "add", "./square")
    assert plugin(home, "install", "toolkit").count("UserPromptSubmit hook") == 1
    waits = plugin(home, "trust", "toolkit", fails=True)
    _, _, line = waits.strip().partition("or run: clew plugin ")
    assert "is trusted" in plugin(home, *line.split())


def test_two_plugins_of_one_name_are_named_whole(home: Path) -> None:
    work = home / "work"
    shutil.copytree(work / "square", work / "circle")
    market = work / "circle" / ".claude-plugin" / "marketplace.json"
    market.write_text(
        json.dumps(json.loads(market.read_text("utf-8")) | {"name": "circle"}), "utf-8"
    )
    for name in ("square", "circle"):
        plugin(home, "marketplace", "add", f"./{name}")
        plugin(home, "install", f"toolkit@{name}")
    warned, _ = run(home, "go")
    assert "plugin toolkit@circle ignored: toolkit@square has the same name" in warned
    line = warned.partition("; run: clew plugin trust ")[2].split()[0]
    assert line == ID
    plugin(home, "trust", line, "--trust")
    plugin(home, "disable", "toolkit@circle")
    assert run(home, "go")[0] == ""


def test_a_place_that_holds_no_plugin_or_marketplace_is_named(home: Path) -> None:
    plugin(home, "marketplace", "add", "./square")
    bad = home / "work" / "bad"
    (bad / ".claude-plugin").mkdir(parents=True)
    for name in ("plugin.json", "marketplace.json"):
        (bad / ".claude-plugin" / name).write_text("{}", "utf-8")
    git(bad, "init", "-q", "-b", "main")
    git(bad, "add", ".")
    git(bad, "commit", "-qm", "one")
    said = plugin(home, "install", "./bad", fails=True)
    assert "clew plugin: ./bad/.claude-plugin/plugin.json: name: " in said
    said = plugin(home, "marketplace", "add", f"file://{bad}", fails=True)
    assert f"clew plugin: file://{bad}/.claude-plugin/marketplace.json: name: " in said
    shutil.move(home / "work" / "square", home / "work" / "gone")
    said = plugin(home, "install", "toolkit", fails=True)
    assert "no marketplace offers toolkit; " in said
    assert f"! marketplace square: {home / 'work' / 'square'}: " in said


@pytest.mark.parametrize(
    ("manifest", "what"),
    [
        ("{", "invalid JSON"),
        ("[]", "expected an object"),
        ('{"name": "x", "commands": "../../.."}', "is outside the plugin"),
        ('{"name": "x", "commands": 3}', "commands: expected a path"),
        ('{"name": "x", "agents": ["./gone"]}', "./gone not found"),
        ('{"name": "x", "mcpServers": "./bad.json"}', "bad.json: invalid JSON"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said(tmp_path: Path, manifest: str, what: str) -> None:
    root = tmp_path / "work" / "bad"
    (root / ".claude-plugin").mkdir(parents=True)
    (root / ".claude-plugin" / "plugin.json").write_text(manifest, "utf-8")
    (root / "bad.json").write_text("{", "utf-8")
    assert what in plugin(tmp_path, "check", "./bad", fails=True)


def test_an_organisation_may_name_the_only_sources(tmp_path: Path) -> None:
    from clew.parts.plugins.install import named_by
    from clew.parts.plugins.manifest import PluginSource

    listed = [
        {"source": "github", "repo": "a/b"},
        {"source": "directory", "path": str(tmp_path)},
        3,
    ]
    assert named_by(listed, PluginSource(url="https://github.com/a/b.git"))
    assert named_by(listed, PluginSource(path=str(tmp_path)))
    assert not named_by(listed, PluginSource(url="https://github.com/a/c.git"))
    assert not named_by([], PluginSource(path="/x"))


def test_no_marketplace_is_called_as_plugins_without_one_are(home: Path) -> None:
    path = home / "work" / "square" / ".claude-plugin" / "marketplace.json"
    data = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(data | {"name": "local"}), "utf-8")
    told = plugin(home, "marketplace", "add", "./square", fails=True)
    assert f'{path}: name: "local" is reserved for plugins without a marketplace' in told
    assert plugin(home, "marketplace", "list").startswith("no marketplaces")


@pytest.mark.no_cover
def test_a_removal_that_is_killed_leaves_no_half_of_a_plugin(home: Path) -> None:
    folder = home / "work" / "many"
    for number in range(2000):
        (folder / "skills" / f"s{number}").mkdir(parents=True)
        (folder / "skills" / f"s{number}" / "SKILL.md").write_text("Do it.\n", "utf-8")
    (folder / ".claude-plugin").mkdir()
    (folder / ".claude-plugin" / "plugin.json").write_text('{"name": "many"}', "utf-8")
    plugin(home, "install", "./many")
    own = home / "config" / "clew" / "plugins"
    (copy,) = (own / "copies" / "many@local").iterdir()

    def is_touched() -> bool:
        try:
            return len(list((copy / "skills").iterdir())) < 2000
        except OSError:
            return True

    process = subprocess.Popen(
        command("plugin", "remove", "many"),
        cwd=home / "work",
        env=environment(home, "http://127.0.0.1:9"),
        stdout=subprocess.DEVNULL,
    )
    try:
        until(is_touched)
    finally:
        process.kill()
        process.wait(30)
    assert plugin(home, "list").startswith("no plugins")
    # What it had not come to goes with the next.
    plugin(home, "install", "./many")
    assert plugin(home, "remove", "many").startswith("removed many@local\n")
    assert not list((own / "copies").iterdir())


def simple(home: Path, name: str, files: int = 1) -> Path:
    """A folder with a plugin of that name."""
    folder = home / "work" / name
    (folder / "commands").mkdir(parents=True)
    (folder / ".claude-plugin").mkdir()
    (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": name}), "utf-8")
    for number in range(files):
        (folder / "commands" / f"{name}{number}.md").write_text("Do it.\n", "utf-8")
    return folder


def at_once(home: Path, *lines: tuple[str, ...]) -> list[tuple[int, str]]:
    """Run these `clew plugin ...` commands at the same time.

    Return how each ended and what it printed.
    """
    running = [
        subprocess.Popen(
            command("plugin", *line),
            cwd=home / "work",
            env=environment(home, "http://127.0.0.1:9"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        for line in lines
    ]
    said = [process.communicate(timeout=120)[0] for process in running]
    return [(process.returncode, words) for process, words in zip(running, said, strict=True)]


def test_plugins_can_be_installed_and_removed_at_once(home: Path) -> None:
    names = [f"p{number}" for number in range(4)]
    for name in names:
        simple(home, name, 300)
    copies = home / "config" / "clew" / "plugins" / "copies"
    for code, words in at_once(home, *(("install", f"./{name}") for name in names)):
        assert code == 0, words
    for name in names:
        (copy,) = (copies / f"{name}@local").iterdir()
        assert json.loads((copy / ".claude-plugin" / "plugin.json").read_bytes()) == {"name": name}
        assert len(list((copy / "commands").iterdir())) == 300
    listed = plugin(home, "list")
    assert [f"{name}@local (on)" in listed for name in names] == [True] * 4, listed
    for code, words in at_once(home, *(("remove", name) for name in names)):
        assert code == 0, words
    assert not list(copies.iterdir())
    assert plugin(home, "list").startswith("no plugins")
    assert json.loads((home / "config" / "settings.json").read_bytes()) == {}


def test_a_removal_follows_no_link_and_stays_on_its_disk(home: Path) -> None:
    simple(home, "one")
    plugin(home, "install", "./one")
    own = home / "config" / "clew" / "plugins"
    precious = home / "precious"
    precious.mkdir()
    (precious / "gold").write_text("gold", "utf-8")
    (own / "gone").symlink_to(precious)
    (own / "data").mkdir()
    (own / "data" / "one-local").symlink_to(precious)
    # Copies are kept elsewhere, on another disk where there is one.
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else home) as disk:
        shutil.move(own / "copies", disk)
        (own / "copies").symlink_to(Path(disk, "copies"))
        (Path(disk, "copies", "one@local", "out")).symlink_to(precious)
        told = plugin(home, "remove", "one")
        assert str(own / "copies" / "one@local") in told
        assert not list(Path(disk, "copies").iterdir())
    assert not list((own / "data").iterdir())
    assert [path.name for path in precious.iterdir()] == ["gold"]


def bare(folder: Path, name: str) -> Path:
    """A plugin without a manifest, with one command."""
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / f"{name}.md").write_text(f"Do {name}.\n", "utf-8")
    return folder


def test_a_plugin_that_does_not_say_its_name_is_called_like_its_source(home: Path) -> None:
    work = home / "work"
    for name in ("n1", "n2"):
        bare(work / "pl" / name, name)
        assert f"installed {name}@local" in plugin(home, "install", f"./pl/{name}")
        assert plugin(home, "check", f"./pl/{name}").startswith(f"{name}\n")
    repository = bare(work / "far.git", "of-git")
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "one")
    assert "installed far@local at " in plugin(home, "install", f"file://{repository}")
    bare(work / "market" / "folder", "offered")
    (work / "market" / ".claude-plugin").mkdir()
    offers = [{"name": "stall", "source": "./folder"}]
    (work / "market" / ".claude-plugin" / "marketplace.json").write_text(
        json.dumps({"name": "fair", "plugins": offers}), "utf-8"
    )
    plugin(home, "marketplace", "add", "./market")
    assert "installed stall@fair" in plugin(home, "install", "stall")
    listed = plugin(home, "list")
    for one in ("n1@local (on)", "n2@local (on)", "far@local ", "stall@fair (on)"):
        assert one in listed
    _, (body,) = run(home, "/n1:n1")
    assert "Do n1." in said(body)


def test_a_plugin_of_another_source_is_not_replaced(home: Path) -> None:
    first, second = (bare(home / "work" / place / "same", place) for place in ("one", "two"))
    plugin(home, "install", "./one/same")
    refused = plugin(home, "install", "./two/same", fails=True)
    assert f"same@local is already installed from {first}; " in refused
    assert "clew plugin remove same@local" in refused
    assert "commands: one\n" in plugin(home, "list")
    assert "installed same@local" in plugin(home, "install", "./one/../one/same")
    assert "updated same@local" in plugin(home, "update", "same")
    plugin(home, "remove", "same")
    plugin(home, "install", str(second))
    assert "commands: two\n" in plugin(home, "list")


def test_a_folder_with_nothing_of_a_plugin_is_refused(home: Path) -> None:
    (home / "work" / "plain" / "commands").mkdir(parents=True)
    (home / "work" / "plain" / "notes.txt").write_text("of mine\n", "utf-8")
    for word in ("install", "check"):
        assert NOTHING in plugin(home, word, "./plain", fails=True)
    assert "no plugins" in plugin(home, "list")
    assert list((home / "config" / "clew" / "plugins" / "copies").iterdir()) == []


@pytest.mark.parametrize("scope", ["local", "project"])
def test_a_switch_that_waits_for_trust_in_the_folder_says_so(home: Path, scope: str) -> None:
    waits = "ignored until you trust this folder: clew config trust\n"
    plugin(home, "marketplace", "add", "./square")
    assert waits in plugin(home, "install", "toolkit", "--scope", scope)
    assert waits not in plugin(home, "install", "toolkit")
    told = plugin(home, "disable", "toolkit", "--scope", scope)
    assert told.endswith(f": {ID} will be disabled\nthe setting is {waits}")
    assert f"{ID} 1.2.0 (on, " in plugin(home, "list")
    assert clew(home, "http://127.0.0.1:9", "config", "trust").returncode == 0
    assert f"{ID} 1.2.0 (off, " in plugin(home, "list")
    for word, state in (("enable", "enabled"), ("disable", "disabled")):
        told = plugin(home, word, "toolkit", "--scope", scope)
        assert told.endswith(f": {ID} is {state}\n")


def test_removing_the_last_plugin_leaves_no_empty_key_and_touches_no_other(home: Path) -> None:
    simple(home, "one")
    plugin(home, "install", "./one", "--scope", "local")
    plugin(home, "install", "./one")
    local = home / "work" / ".claude" / "settings.local.json"
    user = home / "config" / "settings.json"
    user.write_text('{"enabledPlugins": {"other@x": false, "one@local": true}, "a": 1}\n', "utf-8")
    project = home / "work" / ".claude" / "settings.json"
    project.write_text('{"enabledPlugins": {}}\n', "utf-8")
    told = plugin(home, "remove", "one")
    assert str(local) in told
    assert str(user) in told
    assert str(project) not in told
    assert json.loads(local.read_bytes()) == {}
    assert json.loads(user.read_bytes()) == {"enabledPlugins": {"other@x": False}, "a": 1}
    assert project.read_text("utf-8") == '{"enabledPlugins": {}}\n'
