"""Sessions that are left and resumed in more than thirty ways, each with the real program.

A sitting runs `clew -p` in its own folder against a scripted model and records every request. What
counts is the beginning of a request as the service caches it: system, tools and messages, block by
block. `python -m tests.fronts.headless.sittings` writes the golden logs that do not exist yet.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless import forked
from tests.fronts.headless.clew_process import environment, transcripts, until

Json = dict[str, Any]
GOLDEN = Path(__file__).parent / "golden"
SESSION = "7c0e5a52-3f0b-4d8e-9a35-5d6b1f2c8e10"
FREE = ("--allowed-tools", "Bash,Read,Write,Edit")
LAST = "And what now?"
FINE: Json = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
OLDER = "0.0.1"  # the clew that the golden logs say they began with
THEIRS = "/home/ada"  # where they say they ran
NEWER = (
    "import clew.version as v; v.VERSION = '9.9.9'\n"
    "import clew.agent.context.system_prompt as s; s.CONDUCT = 'Everything is said anew.'\n"
    "import sys; from clew.cli import main; sys.exit(main(sys.argv[1:]))"
)


def beginning(body: Json) -> list[str]:
    """Return a request in the pieces that the service caches, to compare the beginnings."""
    pieces = [*(body.get("tools") or []), *(body.get("system") or [])]
    said = ""
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] != said:
            said = message["role"]
            pieces.append({"role": said})
        pieces += blocks
    return [json.dumps(unmarked(piece), sort_keys=True, ensure_ascii=False) for piece in pieces]


def unmarked(piece: Json) -> Json:
    return {key: value for key, value in piece.items() if key != "cache_control"}


def digest(pieces: list[str]) -> str:
    return hashlib.sha256("\n".join(pieces).encode("utf-8", "surrogatepass")).hexdigest()


class Sitting:
    """One session in one folder.

    `expected` maps a request to the earlier one that it must begin like.
    """

    def __init__(self, home: Path, server: LoopbackServer) -> None:
        self.home = home
        self.server = server
        self.work = home / "work"
        self.work.mkdir(exist_ok=True)
        self.session = SESSION
        self.expected: dict[int, int | None] = {}
        self.always: tuple[str, ...] = ()
        self.environ = environment(home, server.url)

    def say(self, prompt: str, *args: str, stdin: bytes | None = None) -> str:
        """Send the session's first prompt."""
        return self.run("-p", prompt, *FREE, "--session-id", self.session, *args, stdin=stdin)

    def go_on(self, prompt: str, *args: str, cwd: Path | None = None) -> str:
        return self.run("-p", prompt, *FREE, "--resume", self.session, *args, cwd=cwd)

    def run(
        self, *args: str, cwd: Path | None = None, stdin: bytes | None = None, fails: bool = False
    ) -> str:
        done = forked.run(
            (*args, *self.always),
            cwd=cwd or self.work,
            env=self.environ,
            input=stdin,
            stdin=subprocess.DEVNULL,
        )
        assert fails or done.returncode in (0, 1, 130), done.stderr.decode()
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done.stdout.decode()

    def run_newer(self, *args: str) -> None:
        """Run a clew of another version, which has other instructions."""
        subprocess.run(
            [sys.executable, "-c", NEWER, *args],
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )

    def stopped(self, prompt: str, number: int, when: Callable[[], bool], *args: str) -> None:
        """Run clew and end it with a signal once `when` is true."""
        process = forked.Forked(
            ("-p", prompt, *FREE, *args),
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(when)
            process.send_signal(number)
            process.wait(30)
        finally:
            process.kill()
            process.wait(30)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    @property
    def log(self) -> Path:
        return next(path for path in transcripts(self.home) if path.stem == self.session)

    def entries(self) -> list[Json]:
        return [json.loads(line) for line in self.log.read_bytes().splitlines() if line.strip()]

    def append(self, **line: Any) -> None:
        with self.log.open("ab") as file:
            text = json.dumps({**line, "sessionId": self.session}, separators=(",", ":"))
            file.write(text.encode() + b"\n")

    @property
    def bodies(self) -> list[Json]:
        return [r.body for r in self.server.requests if isinstance(r.body, dict)]

    def broken_prefixes(self) -> list[str]:
        """Return the requests that do not begin like the one before, except the expected ones."""
        told = []
        all_pieces = [beginning(body) for body in self.bodies]
        for n in range(1, len(all_pieces)):
            before = self.expected.get(n, n - 1)
            if before is None:
                continue
            shorter, longer = all_pieces[before], all_pieces[n]
            for place, piece in enumerate(shorter):
                if longer[place : place + 1] != [piece]:
                    now = longer[place] if place < len(longer) else "(nothing)"
                    told.append(f"request {n}, piece {place}: {now[:200]} was {piece[:200]}")
                    break
        return told


class Told:
    """One way to leave a session: the model's script, and the steps up to the last prompt."""

    def __init__(self, play: Callable[[Sitting], None], answers: list[Any]) -> None:
        self.play = play
        self.answers = [*answers, {"text": "Fine.", "times": "always"}]

    def serving(self) -> Any:
        return serving({"scenario": 1, "answers": self.answers}, strict=True)


SITTINGS: dict[str, Told] = {}


def sitting(*answers: Any) -> Callable[[Callable[[Sitting], None]], None]:
    def keep(play: Callable[[Sitting], None]) -> None:
        SITTINGS[play.__name__] = Told(play, list(answers))

    return keep


def bash(line: str, **more: Any) -> Json:
    return {"tool": "Bash", "input": {"command": line}, **more}


def read(name: str) -> Json:
    return {"tool": "Read", "input": {"file_path": name}}


# -- plain talk


@sitting()
def plain(it: Sitting) -> None:
    it.say("Hello")


@sitting()
def several_turns_each_resumed(it: Sitting) -> None:
    it.say("One")
    it.go_on("Two")
    it.go_on("Three")


@sitting()
def continued_as_the_newest(it: Sitting) -> None:
    it.say("One")
    it.run("-p", "Two", *FREE, "--continue")


@sitting()
def named_by_its_title(it: Sitting) -> None:
    it.say("One")
    it.append(type="custom-title", customTitle="the ball of thread")
    it.run("-p", "Two", *FREE, "--resume", "the ball of thread")


@sitting()
def from_another_folder(it: Sitting) -> None:
    it.say("One")
    other = it.home / "other"
    other.mkdir()
    it.go_on("Two", cwd=other)


@sitting()
def odd_characters(it: Sitting) -> None:
    it.write("cafe\u0301.txt", "e\u0301 \u2028 \x85 \U0001f9f6\r\n")
    it.say(
        "Nai\u0308ve \u2028 \x85 \U0001f9f6\r\nand a tab\t.", stdin=b"piped \xf0\x9f\xa7\xb6\r\n"
    )
    it.go_on("\u202ewritten backwards, \u0000and\u001b[31m red".replace("\u0000", ""))


@sitting({"content": [{"thinking": "Let me think.", "signature": "c2ln"}, "Thought."]})
def thinking(it: Sitting) -> None:
    it.say("Think", "--model", "opus")


@sitting(
    {"content": [{"thinking": "I look.", "signature": "c2ln"}, bash("echo looked")]},
    {"content": [{"thinking": "Seen.", "signature": "c2ln"}, "It said looked."]},
)
def thinking_around_a_call(it: Sitting) -> None:
    it.say("Look", "--model", "opus")


@sitting({"content": [{"thinking": "", "signature": "c2ln"}, "Hidden thoughts."]})
def thinking_whose_words_are_left_out(it: Sitting) -> None:
    it.say("Think", "--model", "opus")


@sitting({"content": [{"redacted_thinking": "b3BhcXVl"}, "I cannot show it."]})
def redacted_thinking(it: Sitting) -> None:
    it.say("Think", "--model", "opus")


# -- tools


@sitting({"content": ["I run it.", bash("echo out; echo err >&2; exit 3")]}, {"text": "Ran."})
def a_call_that_fails(it: Sitting) -> None:
    it.say("Run it")


@sitting({"content": [read("a.py")]}, {"text": "Read."})
def a_file_that_changes_afterwards(it: Sitting) -> None:
    it.write("a.py", "print(1)\n")
    it.say("Read it")
    it.write("a.py", "print(2)\n")


@sitting({"content": [read("a.py"), read("b.py"), read("missing.py")]}, {"text": "All three."})
def parallel_calls(it: Sitting) -> None:
    it.write("a.py", "a = 1\n")
    it.write("b.py", "b = 2\n")
    it.say("Read them")


@sitting(
    {"content": [bash("sleep 0.3; echo slow"), bash("echo quick"), read("a.py")]},
    {"text": "Done."},
)
def parallel_calls_that_end_in_another_order(it: Sitting) -> None:
    it.write("a.py", "a = 1\n")
    it.say("Run them")


@sitting(
    {"content": [{"tool": "Write", "input": {"file_path": "n.txt", "content": "one\n"}}]},
    {"content": [{"tool": "Edit", "input": {"file_path": "n.txt", "old_string": "one", "new_string": "two"}}]},
    {"text": "Written."},
)  # fmt: skip
def a_file_written_and_edited(it: Sitting) -> None:
    it.say("Write it")


@sitting({"content": [{"tool": "NoSuchTool", "input": {}}]}, {"text": "There is none."})
def a_tool_that_is_not_there(it: Sitting) -> None:
    it.say("Use it")


@sitting(
    {"content": [{"tool": "Bash", "input_json": ['{"command": "ec', "ho"]}]},
    {"text": "It was no JSON."},
)
def a_call_that_is_no_json(it: Sitting) -> None:
    it.say("Run it")


@sitting({"content": [bash("touch made")]}, {"text": "Not allowed."})
def a_call_that_is_denied(it: Sitting) -> None:
    it.always = ("--disallowed-tools", "Bash(touch *)")
    it.say("Make it")


@sitting({"content": [read("dot.png")]}, {"text": "A dot."})
def an_image(it: Sitting) -> None:
    it.write("dot.png", PNG)
    it.say("Look at it")
    (it.work / "dot.png").unlink()


@sitting({"content": [bash("yes 0123456789 | head -c 200000")]}, {"text": "Long."})
def an_output_that_is_kept_apart(it: Sitting) -> None:
    it.say("Print much")


@sitting(
    {
        "content": [
            "I search.",
            {"server_tool": "web_search", "input": {"query": "clew"}, "id": "srvtoolu_1"},
            {
                "block": {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [],
                }
            },
            "Found nothing.",
        ]
    }
)
def a_tool_of_the_service(it: Sitting) -> None:
    it.say("Search")


@sitting(
    {"content": [{"tool": "TodoWrite", "input": {"todos": [
        {"content": "Look", "status": "in_progress", "activeForm": "Looking"},
        {"content": "Tell", "status": "pending", "activeForm": "Telling"}]}}]},
    {"text": "Planned."},
)  # fmt: skip
def a_list_of_things_to_do(it: Sitting) -> None:
    it.say("Plan")


# -- what goes wrong


@sitting({"status": 529, "headers": {"retry-after": "0"}}, {"text": "After all."})
def an_overload(it: Sitting) -> None:
    it.say("Hello")


@sitting({"status": 400, "error": {"type": "invalid_request_error", "message": "No."}})
def a_request_that_was_refused(it: Sitting) -> None:
    it.say("Hello")


@sitting(
    {"content": ["A first block.", "A second one that breaks off here."],
     "faults": [{"after_events": 12, "cut": "close"}]},
    {"text": "Went on."},
)  # fmt: skip
def an_answer_that_breaks_off(it: Sitting) -> None:
    it.say("Talk")


@sitting({"text": "Half of what", "stop_reason": "max_tokens"}, {"text": "I wanted to say."})
def an_answer_that_was_too_long(it: Sitting) -> None:
    it.say("Talk")


@sitting({"content": [], "stop_reason": "end_turn"}, {"text": "Sorry."})
def an_empty_answer(it: Sitting) -> None:
    it.say("Talk")


@sitting({"text": "Hanging in the air", "faults": [{"after_events": 5, "stall_s": "forever"}]})
def interrupted_while_it_talks(it: Sitting) -> None:
    it.stopped("Talk", signal.SIGINT, lambda: bool(it.server.requests), "--session-id", it.session)


@sitting({"content": ["I wait.", bash("touch on; sleep 60")]})
def interrupted_in_a_call(it: Sitting) -> None:
    it.stopped("Wait", signal.SIGINT, (it.work / "on").exists, "--session-id", it.session)


@sitting({"content": ["I wait.", bash("touch on; sleep 60"), read("a.py")]})
def killed_in_a_call(it: Sitting) -> None:
    it.stopped("Wait", signal.SIGKILL, (it.work / "on").exists, "--session-id", it.session)


@sitting({"content": ["I look.", bash("echo 1"), bash("echo 2")]}, {"text": "Looked."})
def a_last_line_that_is_torn(it: Sitting) -> None:
    it.say("Look")
    with it.log.open("ab") as file:
        file.write(b'{"type":"user","uuid":"torn')


# -- what changes around it


@sitting()
def memory_that_changes(it: Sitting) -> None:
    it.write("CLAUDE.md", "Speak plainly.\n")
    it.say("Hello")
    it.write("CLAUDE.md", "Speak in riddles.\n")
    it.go_on("Again")


@sitting({"content": [read("below/a.py")]}, {"text": "Read."})
def memory_below_the_folder(it: Sitting) -> None:
    it.write("CLAUDE.md", "Of the project.\n")
    it.write("below/CLAUDE.md", "Of what is below.\n")
    it.write("below/a.py", "a = 1\n")
    it.say("Read it")


@sitting()
def a_repository_that_moves_on(it: Sitting) -> None:
    for args in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "First")):
        git(it, *args)
    it.say("Hello")
    it.write("new.py", "x = 1\n")
    git(it, "checkout", "-q", "-b", "other")


@sitting()
def another_version(it: Sitting) -> None:
    it.say("Hello")
    it.run_newer("-p", "Again", *FREE, "--resume", it.session)


@sitting()
def words_of_the_command_line(it: Sitting) -> None:
    it.always = ("--append-system-prompt", "Answer in rhymes.")
    it.say("Hello")


# -- copies and other places to go on from


@sitting()
def a_fork(it: Sitting) -> None:
    it.say("One")
    copy = "7c0e5a52-3f0b-4d8e-9a35-000000000001"
    it.run("-p", "Two", *FREE, "--resume", it.session, "--fork-session", "--session-id", copy)
    it.session = copy


@sitting({"content": [bash("echo 1"), bash("echo 2")]}, {"text": "Both."})
def a_fork_of_a_fork(it: Sitting) -> None:
    it.say("One")
    for n in (1, 2):
        copy = f"7c0e5a52-3f0b-4d8e-9a35-00000000000{n}"
        it.run("-p", "On", *FREE, "--resume", it.session, "--fork-session", "--session-id", copy)
        it.session = copy


@sitting()
def rewound(it: Sitting) -> None:
    it.say("One")
    there = next(e["uuid"] for e in it.entries() if e["type"] == "assistant")
    it.go_on("Two, which is taken back")
    it.append(type="last-prompt", leafUuid=there, explicit=True)
    it.expected[len(it.bodies)] = 0


@sitting()
def rewound_and_gone_on_elsewhere(it: Sitting) -> None:
    it.say("One")
    there = next(e["uuid"] for e in it.entries() if e["type"] == "assistant")
    it.go_on("Two, which is taken back")
    it.append(type="last-prompt", leafUuid=there, explicit=True)
    it.expected[len(it.bodies)] = 0
    it.go_on("Two, another one")


@sitting()
def compacted(it: Sitting) -> None:
    it.say("A long story")
    last = [e for e in it.entries() if e["type"] == "assistant"][-1]
    common = {key: last[key] for key in ("isSidechain", "userType", "cwd", "version", "timestamp")}
    boundary = "7c0e5a52-0000-4d8e-9a35-000000000001"
    it.append(
        **common,
        type="system",
        subtype="compact_boundary",
        uuid=boundary,
        parentUuid=None,
        logicalParentUuid=last["uuid"],
        content="Conversation compacted",
        compactMetadata={"trigger": "manual", "preTokens": 1000},
    )
    it.append(
        **common,
        type="user",
        uuid="7c0e5a52-0000-4d8e-9a35-000000000002",
        parentUuid=boundary,
        isCompactSummary=True,
        message={"role": "user", "content": "It was a long story."},
    )
    it.expected[len(it.bodies)] = None
    it.go_on("Go on")


@sitting()
def of_another_program(it: Sitting) -> None:
    """A log without any line of clew's; its prefix is stable from its first prompt here on."""
    it.say("Hello")
    kept = [e for e in it.entries() if e["type"] in ("user", "assistant")]
    kept[0]["parentUuid"] = None
    for before, entry in pairwise(kept):
        entry["parentUuid"] = before["uuid"]
    text = "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in kept)
    it.log.write_text(text, encoding="utf-8")
    it.expected[len(it.bodies)] = None
    it.go_on("Again")


def git(it: Sitting, *args: str) -> None:
    who = {
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_AUTHOR_DATE": "1700000000 +0000",
    }
    who |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "a@b.c"}
    who |= {"GIT_COMMITTER_DATE": "1700000000 +0000", "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *args], cwd=it.work, env=it.environ | who, check=True)


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


# -- golden


def go_on_golden(name: str, home: Path, server: LoopbackServer) -> tuple[Sitting, str]:
    """Resume the golden log of a sitting with this clew, and return a digest of the request."""
    it = Sitting(home, server)
    folder = home / "config" / "projects" / "-home-ada-work"
    prompts = home / "config" / "clew" / "prompts"
    for place in (folder, prompts):
        place.mkdir(parents=True, exist_ok=True)
    for kept in (GOLDEN / "prompts").glob("*.json"):
        (prompts / kept.name).write_bytes(kept.read_bytes())
    data = (GOLDEN / f"{name}.jsonl").read_bytes()
    named = [json.loads(line).get("sessionId") for line in data.splitlines()[:1]]
    it.session = named[0] or SESSION
    (folder / f"{it.session}.jsonl").write_bytes(data)
    it.always = arguments()[name]
    it.go_on(LAST)
    return it, digest(beginning(it.bodies[-1]))


def arguments() -> dict[str, tuple[str, ...]]:
    """Return the arguments that some sittings are always started with."""
    rhymes = ("--append-system-prompt", "Answer in rhymes.")
    always = dict.fromkeys(SITTINGS, ()) | {"words_of_the_command_line": rhymes}
    return always | {"a_call_that_is_denied": ("--disallowed-tools", "Bash(touch *)")}


def write_golden(name: str) -> str:
    """Play a sitting up to its last prompt, and keep its log without names of this machine."""
    told = SITTINGS[name]
    with TemporaryDirectory() as folder, told.serving() as server:
        it = Sitting(Path(folder), server)
        told.play(it)
        data = it.log.read_bytes().replace(folder.encode(), THEIRS.encode())
        data = data.replace(folder.replace("/", "-").encode(), THEIRS.replace("/", "-").encode())
        data = data.replace(os.uname().release.encode(), b"6.1.0")
        for line in data.splitlines():
            if b'"prompt-hashes"' in line:
                older = json.loads(line) | {"version": OLDER}
                data = data.replace(line, json.dumps(older, separators=(",", ":")).encode())
        (GOLDEN / f"{name}.jsonl").write_bytes(data)
        (GOLDEN / "prompts").mkdir(exist_ok=True)
        for kept in (it.home / "config" / "clew" / "prompts").glob("*.json"):
            (GOLDEN / "prompts" / kept.name).write_bytes(kept.read_bytes())
    with TemporaryDirectory() as folder, serving(FINE, strict=True) as server:
        return go_on_golden(name, Path(folder), server)[1]


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    path = GOLDEN / "digests.json"
    digests = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name in SITTINGS:
        if name not in digests:
            digests[name] = write_golden(name)
            path.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
