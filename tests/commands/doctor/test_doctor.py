"""`clew doctor` as a process: a healthy installation, and one in which everything is broken."""

import json
import re
import socket
from pathlib import Path
from typing import Any

from clew.agent.subagents.specs import NAMES, NO_DESCRIPTION
from clew.commands.doctor.checks import NOBODYS_TOOL
from clew.system.config.frontmatter import NOT_CLOSED
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.gates.house import ROOT
from tests.record.transcript.build import SESSION, boundary, call, said, user, write

HELLO: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Hello."}]}
NOWHERE = "http://127.0.0.1:9"

FLOOD = f"Read(secret-{{{','.join(map(str, range(65)))}}})"


def looked(home: Path, url: str, *args: str, **more: Any) -> dict[str, list[dict[str, str]]]:
    """Return the findings by subject."""
    done = clew(home, url, "doctor", "--json", *args, **more)
    told = json.loads(done.stdout)
    assert done.returncode == (0 if told["ok"] else 1), done.stderr
    found: dict[str, list[dict[str, str]]] = {}
    for one in told["findings"]:
        found.setdefault(one["subject"], []).append(one)
    return found


def faults(found: list[dict[str, str]]) -> list[str]:
    assert all(one["remedy"] for one in found if one["state"] == "fault")
    return [one["words"] for one in found if one["state"] == "fault"]


def test_a_sound_setup_has_no_fault_and_only_the_api_is_asked(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        done = clew(tmp_path, server.url, "doctor")
        assert "!!" not in done.stdout, done.stdout
        assert done.returncode == 0
        assert "reachable (" in done.stdout
        assert "telemetry: none\n" in done.stdout
        assert "ANTHROPIC_API_KEY=(hidden)" in done.stdout
        assert f"ANTHROPIC_BASE_URL={server.url}" in done.stdout
        asked = [request.target for request in server.requests]
    assert asked == ["/v1/models"]
    assert "sk-ant-test-0000" not in done.stdout


def test_every_fault_of_a_broken_setup_is_named_with_its_remedy(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        assert clew(tmp_path, server.url, "-p", "hi").returncode == 0
    (transcript,) = transcripts(tmp_path)
    parent = re.compile(rb'"parentUuid":"[^"]+"')
    transcript.write_bytes(parent.sub(b'"parentUuid":"x"', transcript.read_bytes()))
    config = tmp_path / "config"
    settings = {
        "permissons": {},
        "permissions": {"deny": ["Bsh", FLOOD], "allow": ["Raed"]},
        "hooks": {
            "PreToolUse": [{"hooks": [{"type": "command", "command": "no-such-program-here x"}]}],
            "NoSuchEvent": [{"hooks": [{"type": "command", "command": "true"}]}],
        },
        "mcpServers": {"gone": {"command": "no-such-server-here"}},
        "sandbox": {"enabled": "perhaps"},
    }
    (config / "settings.json").write_text(json.dumps(settings), "utf-8")
    local = tmp_path / "work" / ".claude"
    local.mkdir()
    (local / "settings.local.json").write_text("{", "utf-8")
    own = config / "clew"
    own.mkdir(exist_ok=True)
    (own / "credentials.json").write_text('{"apiKey": "sk-ant-kept"}', "utf-8")
    (own / "credentials.json").chmod(0o644)
    found = looked(tmp_path, NOWHERE)
    assert any('unknown key "permissons"' in words for words in faults(found["configuration"]))
    assert any(
        "settings.local.json:1: invalid JSON" in words for words in faults(found["configuration"])
    )
    # What a program that starts clew brings along is not known here: no fault, and said.
    notes = [one["words"] for one in found["configuration"] if one["state"] == "note"]
    assert any("deny Bsh:" in words for words in notes)
    assert any("allow Raed:" in words for words in notes)
    flood = [words for words in faults(found["configuration"]) if "Read(secret-{" in words]
    assert "settings.json:1: Read(secret-{" in flood[0]
    assert "more than 64 patterns" in flood[0]
    assert any("credentials.json" in words for words in faults(found["key"]))
    assert any(NOWHERE in words for words in faults(found["network"]))
    assert any(transcript.name in words for words in faults(found["transcripts"]))
    assert any("sandbox: Expected" in words for words in faults(found["sandbox"]))
    assert any("no-such-program-here" in words for words in faults(found["hooks"]))
    assert any("NoSuchEvent" in words for words in faults(found["hooks"]))
    assert any("no-such-server-here" in words for words in faults(found["MCP servers"]))
    remedies = {
        'unknown key "permissons"': "clew config keys",
        "credentials.json": "chmod 600",
        transcript.name: f"clew sessions repair {transcript.stem}",
        "no-such-program-here": "hook",
        "NoSuchEvent": "clew hooks events",
        "no-such-server-here": "clew mcp remove gone",
    }
    every = [one for found_here in found.values() for one in found_here if one["state"] == "fault"]
    for words, remedy in remedies.items():
        assert any(words in one["words"] and remedy in one["remedy"] for one in every), words
    # A person reads the same: what is wrong, and below it what to do.
    said = clew(tmp_path, NOWHERE, "doctor").stdout
    for one in every:
        assert one["remedy"] in said


def test_what_only_warns_is_a_remark_whose_advice_comes_to_an_end(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        assert clew(tmp_path, server.url, "-p", "hi").returncode == 0

        def told() -> str:
            done = clew(tmp_path, server.url, "doctor")
            assert done.returncode == 0, done.stdout
            assert "!!" not in done.stdout
            return done.stdout

        def sessions(*words: str, code: int = 0) -> str:
            done = clew(tmp_path, server.url, "sessions", *words)
            assert done.returncode == code, done.stdout + done.stderr
            return done.stdout

        (transcript,) = transcripts(tmp_path)
        head, _, rest = transcript.read_bytes().partition(b"\n")
        transcript.write_bytes(head + b'\n{"type": "user", "uuid": \n' + rest)
        session, advice = transcript.stem, f"clew sessions repair --warnings {transcript.stem}"
        assert f"-- {transcript}: line 2: L02 warning" in told()
        assert advice in told()
        assert advice in sessions("repair", session, code=1)
        sessions("repair", "--warnings", session)
        (copy,) = [file for file in transcripts(tmp_path) if file != transcript]
        assert advice not in told()
        assert copy.stem in told()
        assert f"clew sessions archive {session}" in told()
        assert str(copy) in sessions("repair", session)
        sessions("archive", session)
        assert session not in told()
        (valid,) = looked(tmp_path, server.url)["transcripts"]
        assert (valid["state"], valid["words"][:2]) == ("fine", "1 ")


def test_a_session_that_a_repair_would_shorten_is_a_remark(tmp_path: Path) -> None:
    """As no program leaves one: a compaction with a prompt's id, and calls written ahead around it."""
    calls = [
        said(name, parent, call("x")) for name, parent in (("a0", "a2"), ("a2", "a1"), ("a3", "a2"))
    ]
    ahead = [{"type": "tool-started", "sessionId": SESSION, "owed": [one]} for one in calls]
    with serving(HELLO) as server:
        assert clew(tmp_path, server.url, "-p", "hi").returncode == 0
        (sound,) = transcripts(tmp_path)
        write(sound.parent, [ahead[0], user("a1", None), *ahead[1:], boundary("a1")])
        refused = clew(tmp_path, server.url, "sessions", "repair", SESSION)
        assert refused.returncode == 2
        assert "without loss" in refused.stderr
        found = looked(tmp_path, server.url)["transcripts"]
    (told,) = (one for one in found if SESSION in one["words"])
    assert told["state"] == "note"
    assert "clew sessions repair" not in told["remedy"]


def test_what_no_repair_repairs_and_what_is_empty_are_remarks_too(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        assert clew(tmp_path, server.url, "-p", "hi").returncode == 0
        (transcript,) = transcripts(tmp_path)
        lines = [json.loads(line) for line in transcript.read_bytes().splitlines()]
        prompt, answer = (
            next(m for m in lines if m["type"] == kind) for kind in ("user", "assistant")
        )
        content = [{"type": "tool_result", "tool_use_id": "gone", "content": "x"}]
        loose = prompt | {
            "uuid": "b0000000-0000-4000-8000-000000000000",
            "parentUuid": answer["uuid"],
            "message": {"role": "user", "content": content},
        }
        with transcript.open("ab") as file:
            file.write(json.dumps(loose, separators=(",", ":")).encode() + b"\n")
        found = looked(tmp_path, server.url)["transcripts"]
        assert [one["state"] for one in found if "T02" in one["words"]] == ["note"]
        assert not faults(found)
        assert all("clew sessions repair" not in one["remedy"] for one in found)
        transcript.write_bytes(b"")
        found = looked(tmp_path, server.url)["transcripts"]
        assert [one["state"] for one in found if str(transcript) in one["words"]] == ["note"]
        assert not any(one["state"] == "fine" for one in found)


def test_a_service_that_refuses_the_key_is_told_from_one_that_is_away(tmp_path: Path) -> None:
    with serving(HELLO, api_key="another") as server:
        found = looked(tmp_path, server.url)
    (words,) = faults(found["network"])
    assert "rejected the API key (HTTP 401)" in words


def test_without_a_key_it_says_how_to_get_going_and_asks_nobody(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    done = clew(tmp_path, "", "doctor", without="ANTHROPIC_API_KEY")
    assert "no API key" in done.stdout
    assert "clew login" in done.stdout
    assert "not checked" in done.stdout


def test_a_service_that_never_answers_is_not_waited_for_offline(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = looked(tmp_path, url, "--offline")
    assert found["network"] == [
        {"subject": "network", "state": "note", "words": "not checked (--offline)", "remedy": ""}
    ]


def test_files_of_agents_and_skills_that_cannot_be_read_are_faults_and_listed_as_such(
    tmp_path: Path,
) -> None:
    heads = {
        "agents/open.md": "---\nname: open\ndescription: never closed\nDo it.\n",
        "agents/mute.md": "---\nname: mute\n---\nDo it.\n",
        "agents/half.md": "---\nname: half\ndescription: of use\ntools: {a: b}\n---\nDo it.\n",
        "agents/note.md": "What the others are about.\n",
        "skills/torn/SKILL.md": "---\nname: torn\n",
    }
    for name, text in heads.items():
        path = tmp_path / "work" / ".claude" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    folder = tmp_path / "work" / ".claude"
    agents = [
        f"{folder}/agents/half.md: tools: {NAMES}",
        f"{folder}/agents/mute.md: {NO_DESCRIPTION}",
        f"{folder}/agents/open.md:1: {NOT_CLOSED}",
    ]
    skills = [f"{folder}/skills/torn/SKILL.md:1: {NOT_CLOSED}"]
    found = looked(tmp_path, NOWHERE, "--offline")["agents and skills"]
    assert faults(found) == [*agents, *skills]
    assert found[-1]["words"] == "1 agent and 1 command or skill"
    told = [line.strip() for line in clew(tmp_path, NOWHERE, "-p", "/agents").stdout.splitlines()]
    assert sorted(line for line in told if line.startswith("!")) == [f"! {line}" for line in agents]
    (half,) = (row for row in told if row.startswith("half "))
    assert "of use" in half
    told = [line.strip() for line in clew(tmp_path, NOWHERE, "-p", "/skills").stdout.splitlines()]
    assert f"! {skills[0]}" in told
    assert any(line.split() == ["torn", "name:", "torn"] for line in told), told


def test_a_tool_that_nobody_has_is_a_remark_with_advice_that_fits(tmp_path: Path) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    head = "---\nname: a\ndescription: of use\ntools: Read, Nonsense\n"
    (agents / "a.md").write_text(f"{head}---\nDo it.\n", "utf-8")
    rules = {"permissions": {"deny": ["Nonsense", FLOOD], "allow": ["Bash("]}}
    (tmp_path / "config" / "settings.json").write_text(json.dumps(rules), "utf-8")
    found = looked(tmp_path, NOWHERE, "--offline")
    remedies = {
        one["words"]: (one["state"], one["remedy"])
        for subject in ("configuration", "agents and skills")
        for one in found[subject]
    }
    (of_rule,) = (told for words, told in remedies.items() if "deny Nonsense:" in words)
    (of_agent,) = (told for words, told in remedies.items() if "tools:" in words)
    whose = NOBODYS_TOOL
    assert of_rule == ("note", f"remove the rule, or {whose}")
    assert of_agent == ("note", whose)
    unread = [told for words, told in remedies.items() if "expected Tool or" in words]
    unread += [told for words, told in remedies.items() if "more than 64 patterns" in words]
    assert [remedy.partition(";")[0] for _, remedy in unread] == ["fix or remove this rule"] * 2
    (agents / "a.md").write_text(f"{head}maxTurns: few\n---\nDo it.\n", "utf-8")
    (agents / "b.md").write_text("---\nname: b\n", "utf-8")
    faulty = [
        one["remedy"]
        for one in looked(tmp_path, NOWHERE, "--offline")["agents and skills"]
        if one["state"] == "fault"
    ]
    assert faulty == [
        "fix this part of the file",
        "fix this file: it must start with NAME: VALUE lines between two --- lines",
    ]


def test_each_part_that_is_looked_at_stands_in_the_table_of_the_docs(tmp_path: Path) -> None:
    told = looked(tmp_path, NOWHERE, "--offline")
    table = (ROOT / "docs" / "using" / "troubleshooting.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.M)
    first = rows.index("part")
    assert [row for row in rows[first + 1 :] if "---" not in row][: len(told)] == list(told)


def test_what_counts_as_a_users_word_and_others_can_change_is_a_fault(tmp_path: Path) -> None:
    config = tmp_path / "config"
    for name in ("agents/mine.md", "commands/mine.md", "skills/mine/SKILL.md"):
        (config / name).parent.mkdir(parents=True, exist_ok=True)
        (config / name).write_text("---\ndescription: mine\n---\nDo it.\n", "utf-8")
    (config / "settings.json").write_text("{}", "utf-8")
    subject = "agents and skills"
    assert faults(looked(tmp_path, NOWHERE, "--offline")[subject]) == []
    opened = ("settings.json", "agents/mine.md", "commands", "skills/mine")
    for name in opened:
        (config / name).chmod((config / name).stat().st_mode | 0o002)
    found = looked(tmp_path, NOWHERE, "--offline")[subject]
    told = faults(found)
    assert len(told) == len(opened)
    for fault, name in zip(told, opened, strict=True):
        assert fault.startswith(f"{config / name} ")
    assert found[0]["remedy"].endswith(f"chmod o-w {config / opened[0]}")


def test_a_report_to_share_names_neither_person_nor_host(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    home.mkdir()
    environ = {"ANTHROPIC_BASE_URL": "http://models.acme.example:8000/v1", "LOGNAME": "adalovelace"}
    arguments = ("doctor", "--report", "--offline")
    done = clew(home, NOWHERE, *arguments, environ=environ)
    assert "[host]" in done.stdout
    assert "~/config" in done.stdout
    for private in (str(home), "acme", "adalovelace", "sk-ant-test-0000"):
        assert private not in done.stdout
    plain = clew(home, NOWHERE, "doctor", "--offline", environ=environ)
    assert done.stdout.count("\n") == plain.stdout.count("\n") + 3
