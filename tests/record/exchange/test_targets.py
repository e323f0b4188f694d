"""A session goes to another agent and comes back: the same conversation, whole."""

import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.record.exchange.export import from_the_beginning
from clew.record.exchange.targets.registry import TARGETS
from clew.record.transcript.load import load
from tests.commands.sessions.place import CLEW, Place
from tests.record.transcript.build import SESSION, call, result, said, talk, uid, user

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def conversation() -> list[dict[str, Any]]:
    """Thinking, parallel calls with one result missing, a picture, a failed call, a context."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    answer = {"id": "m1"}
    return [
        user("u1", None, [{"type": "text", "text": "Look."}, PICTURE]),
        user("c1", "u1", "context of clew", isMeta=True),
        said("t1", "c1", thinking, of=answer["id"]),
        said("t2", "t1", {"type": "text", "text": "I look."}, of=answer["id"]),
        said("t3", "t2", call("x"), of=answer["id"]),
        said("t4", "t3", call("y"), of=answer["id"]),
        result("r1", "t3", "x"),
        user("u2", "r1", "And now?"),
        said("a2", "u2", {"type": "text", "text": "Done."}, of="m2"),
    ]


def export(place: Place, form: str) -> Path:
    path = place.cwd / f"out.{form}"
    place.clew("export", SESSION, str(path), "--format", form, "--raw", "--force")
    return path


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(m["message"]["content"]) for m in messages if "message" in m]


@pytest.mark.parametrize("form", ["codex", "gemini", "pi", "opencode", "qwen", "vibe"])
def test_a_session_that_was_elsewhere_comes_back_whole(place: Place, form: str) -> None:
    path = place.write(conversation())
    exported = export(place, form)
    (brought,) = place.json("import", str(exported))["imported"]
    assert brought["kind"] == form
    assert brought["restored"] > 0
    back = Path(brought["path"])
    assert back != path
    assert texts(load(back).messages) == texts(load(path).messages)
    assert [m["uuid"] for m in load(back).messages] == [m["uuid"] for m in load(path).messages]
    assert "already exists" in place.json("import", str(exported), code=2)["refused"][0]["reason"]


def test_what_the_other_agent_added_follows_the_restored_session(place: Place) -> None:
    place.write(conversation())
    exported = export(place, "codex")
    part = {"type": "input_text", "text": "Go on."}
    item = {"type": "message", "role": "user", "content": [part]}
    at = "2026-03-04T05:06:07.890Z"
    line = {"timestamp": at, "type": "response_item", "payload": item}
    exported.write_bytes(exported.read_bytes() + json.dumps(line).encode() + b"\n")
    (brought,) = place.json("import", str(exported))["imported"]
    messages = load(Path(brought["path"])).messages
    assert messages[-1]["message"]["content"] == "Go on."
    assert messages[-1]["parentUuid"] == messages[-2]["uuid"] == uid("a2")


@pytest.mark.parametrize("form", TARGETS)
def test_without_its_record_a_session_comes_back_as_far_as_the_format_goes(
    place: Place, form: str, tmp_path: Path
) -> None:
    place.write(conversation())
    exported = export(place, form)
    (tmp_path / "b").mkdir()
    other = Place(tmp_path / "b")
    (brought,) = other.json("import", str(exported))["imported"]
    assert brought["restored"] == 0
    other.clew("check", brought["sessionId"])
    told = "\n".join(texts(load(Path(brought["path"])).messages))
    for words in ("Look.", "I look.", "And now?", "Done.", "toolu_x", "toolu_y", "not recorded"):
        assert words in told, words
    assert told.index("Look.") < told.index("I look.") < told.index("And now?")


@pytest.mark.parametrize("form", TARGETS)
def test_every_call_has_one_result_in_every_format(place: Place, form: str) -> None:
    place.write(conversation())
    written = export(place, form).read_text("utf-8")
    assert written.count("not recorded") == 1
    again = export(place, form).read_text("utf-8")
    assert again == written


def test_a_session_that_grew_in_its_agent_gets_the_new_messages(place: Place) -> None:
    lines = [
        {"type": "session", "version": 3, "id": "abc", "timestamp": "2026-03-04T05:06:07.890Z",
         "cwd": str(place.cwd)},
        {"type": "message", "id": "1", "parentId": None, "timestamp": "2026-03-04T05:06:07.890Z",
         "message": {"role": "user", "content": "one"}},
    ]  # fmt: skip
    more = {"type": "message", "id": "2", "parentId": "1", "timestamp": "2026-03-04T05:07:07.890Z",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "two"}]}}  # fmt: skip
    path = place.cwd / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (first,) = place.json("import", str(path))["imported"]
    path.write_text("\n".join(map(json.dumps, [*lines, more])), "utf-8")
    (grown,) = place.json("import", str(path))["imported"]
    assert (grown["sessionId"], grown["messages"]) == (first["sessionId"], 1)
    assert len(load(Path(grown["path"])).messages) == 2
    assert place.json("import", str(path), code=2)["imported"] == []
    place.clew("check", first["sessionId"])


def test_a_session_is_handed_over_to_where_the_agent_looks(place: Place, tmp_path: Path) -> None:
    place.write(conversation())
    person = tmp_path / "person"
    environ = {**os.environ, "HOME": str(person), "CLEW_CONFIG_DIR": str(place.home)}
    for name in ("CODEX_HOME", "PI_CODING_AGENT_DIR"):
        environ.pop(name, None)

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [CLEW, *words],
            cwd=place.cwd,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    folder = shlex.quote(str(place.cwd))
    words = run("handover", "codex").strip()
    assert words.startswith(f"cd {folder} && codex resume ")
    own = words.rpartition(" ")[2]
    assert len(list(person.rglob(f".codex/sessions/*/*/*/rollout-*-{own}.jsonl"))) == 1
    assert run("handover", "codex", SESSION).strip() == words
    assert "pi --session" in run("handover", "pi")
    assert len(list(person.rglob(".pi/agent/sessions/*/*.jsonl"))) == 1
    told = run("handover", "opencode")
    assert "opencode import" in told
    assert "opencode --session ses_" in told
    assert run("handover", "claude").strip() == f"claude --resume {SESSION}"
    assert "invalid choice" in run("handover", "nobody", code=2)

    rehearsed = run("sessions", "import", "--all", "--dry-run")
    assert "would import" in rehearsed
    before = {p for p in place.home.rglob("*.jsonl") if "origins" not in str(p)}
    brought = json.loads(run("sessions", "import", "--all", "--json"))
    assert {name: len(agent["imported"]) for name, agent in brought.items()} == {
        "codex": 1, "pi": 1,
    }  # fmt: skip
    after = {p for p in place.home.rglob("*.jsonl") if "origins" not in str(p)}
    assert len(after - before) == 2
    table = run("sessions", "import", "--all").split("\n")
    assert table[0].split() == [
        "agent", "files", "imported", "messages", "subagents", "already", "here", "empty",
        "refused",
    ]  # fmt: skip
    assert table[1].split()[:2] == ["Codex", "1"]
    assert table[1].split()[2:] == ["0", "0", "0", "1", "0", "0"]
    again = json.loads(run("sessions", "import", "--all", "--json"))
    assert [len(agent["imported"]) for agent in again.values()] == [0, 0]
    both = run("sessions", "import", "--all", "x.jsonl", code=2)
    assert "specify files or use --all" in both


@pytest.fixture
def person(tmp_path: Path) -> Path:
    return tmp_path / "person"


def hand_over(place: Place, person: Path, agent: str, code: int = 0) -> str:
    """Hand the session over to an agent of the person, and return the command or the error."""
    environ = {**os.environ, "HOME": str(person), "CLEW_CONFIG_DIR": str(place.home)}
    for name in ("KIMI_SHARE_DIR", "VIBE_HOME"):
        environ.pop(name, None)
    done = subprocess.run(
        [CLEW, "handover", agent, SESSION], cwd=place.cwd, env=environ, capture_output=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return (done.stdout or done.stderr).strip()


@pytest.mark.parametrize("agent", ["gemini", "kimi", "qwen", "vibe"])
def test_a_session_that_was_handed_over_comes_back_whole(
    place: Place, person: Path, agent: str
) -> None:
    path = place.write(conversation())
    command = hand_over(place, person, agent)
    option = "--session" if agent == "kimi" else "--resume"
    assert command.startswith(f"cd {shlex.quote(str(place.cwd))} && {agent} {option} ")
    own = command.rpartition(" ")[2]
    (main,) = (
        file for file in person.rglob("*.jsonl")
        if own[:8] in str(file) and file.name != "context.jsonl"
    )  # fmt: skip
    (brought,) = place.json("import", str(main))["imported"]
    assert (brought["kind"], brought["sessionId"]) == (agent, own)
    assert texts(load(Path(brought["path"])).messages) == texts(load(path).messages)
    assert hand_over(place, person, agent) == command


def test_a_project_that_gemini_knows_keeps_its_folder(place: Place, person: Path) -> None:
    place.write(conversation())
    own = person / ".gemini" / "tmp"
    cwd = str(place.cwd)

    def find_folder() -> str:
        hand_over(place, person, "gemini")
        (session,) = own.rglob("session-*.jsonl")
        session.unlink()
        return session.parent.parent.name

    assert find_folder() == "work"
    assert (own / "work" / ".project_root").read_text("utf-8") == cwd
    assert find_folder() == "work"
    (own / "work" / ".project_root").write_text("/elsewhere", "utf-8")
    assert find_folder() == "work-1"
    (own / "work-1" / ".project_root").unlink()
    old = own / hashlib.sha256(cwd.encode()).hexdigest()
    old.mkdir()
    assert find_folder() == old.name
    projects = {"projects": {cwd: "mine", "/other": "work-2"}}
    (person / ".gemini" / "projects.json").write_text(json.dumps(projects), "utf-8")
    assert find_folder() == "mine"


def test_kimi_learns_the_folder_of_a_session_once(place: Place, person: Path) -> None:
    place.write(conversation())
    listed = person / ".kimi" / "kimi.json"
    listed.parent.mkdir(parents=True)
    other = {"path": "/other", "kaos": "local", "last_session_id": "x"}
    listed.write_text(json.dumps({"work_dirs": [other], "more": 1}), "utf-8")
    hand_over(place, person, "kimi")
    hand_over(place, person, "kimi")
    value = json.loads(listed.read_text("utf-8"))
    assert value["more"] == 1
    assert [item["path"] for item in value["work_dirs"]] == ["/other", str(place.cwd)]
    listed.write_text("{", "utf-8")
    assert "kimi.json: not a JSON object" in hand_over(place, person, "kimi", code=1)
    assert listed.read_text("utf-8") == "{"


def test_a_branch_in_the_other_agent_begins_at_the_restored_message(place: Place) -> None:
    place.write(conversation())
    exported = export(place, "pi")
    lines = [json.loads(line) for line in exported.read_bytes().splitlines()]
    first = next(line for line in lines if line["type"] == "message")
    added = {
        "type": "message", "id": "zz", "parentId": first["id"], "timestamp": first["timestamp"],
        "message": {"role": "user", "content": "Another way."},
    }  # fmt: skip
    exported.write_bytes(exported.read_bytes() + json.dumps(added).encode() + b"\n")
    (brought,) = place.json("import", str(exported))["imported"]
    assert brought["restored"] > 0
    told = texts(load(Path(brought["path"])).messages)
    assert len(told) == 2
    assert "Look." in told[0]
    assert "Another way." in told[1]


def test_an_export_of_all_has_what_a_compaction_left(place: Place) -> None:
    path = place.write(talk(2))
    assert len(from_the_beginning(path)) == 4
    data = json.loads(export(place, "openai").read_text("utf-8"))
    assert [m["role"] for m in data["messages"]] == ["user", "assistant"] * 2
