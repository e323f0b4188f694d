"""Real turns of the real program whose calls change files, and rewinds with the real command."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless import forked
from tests.fronts.headless.clew_process import clew, environment, transcripts

ALLOWED = "--allowedTools=Bash,Write,Edit"


def bash(line: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": line}}


def write(path: str, content: str) -> dict[str, Any]:
    return {"tool": "Write", "input": {"file_path": path, "content": content}}


def read(path: str) -> dict[str, Any]:
    return {"tool": "Read", "input": {"file_path": path}}


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return {"tool": "Edit", "input": {"file_path": path, "old_string": old, "new_string": new}}


class Trip:
    """A home with a working folder; `turn` is one prompt whose answer makes calls one by one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work = home / "work"
        self.work.mkdir(exist_ok=True)
        self.session = ""

    def turn(self, prompt: str, *calls: dict[str, Any]) -> None:
        answers: list[dict[str, Any]] = [{"content": [call]} for call in calls]
        plan = {"scenario": 1, "answers": [*answers, {"text": f"{prompt}: done."}]}
        go_on = ["--resume", self.session] if self.session else []
        with serving(plan, strict=True) as server:
            done = clew(self.home, server.url, "-p", prompt, ALLOWED, *go_on)
        assert done.returncode == 0, done.stderr
        self.session = self.session or transcripts(self.home)[0].stem

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.transcript.read_bytes().splitlines()]

    @property
    def transcript(self) -> Path:
        """The session's file, whatever other sessions there are."""
        return next(path for path in transcripts(self.home) if path.stem == self.session)

    def prompt(self, text: str) -> str:
        """The uuid of what a person said."""
        return next(
            str(e["uuid"]) for e in self.entries if e.get("type") == "user" and said(e) == text
        )

    def rewind(self, *words: str, code: int = 0) -> dict[str, Any]:
        done = self.run("sessions", "rewind", self.session, *words, "--json")
        assert done.returncode == code, (done.stdout, done.stderr)
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
        return found

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return forked.run(
            words,
            cwd=self.work,
            env=environment(self.home, "http://127.0.0.1:9"),
            text=True,
            encoding="utf-8",
        )

    def files(self) -> dict[str, str]:
        """Every file and link of the working folder but git's: its mode and content, or where it leads."""
        found = {}
        for path in sorted(self.work.rglob("*")):
            name = str(path.relative_to(self.work))
            if name.split("/")[0] == ".git":
                continue
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file():
                found[name] = f"{path.stat().st_mode & 0o777:o} {path.read_text('utf-8')}"
            else:
                found[name] = "folder"
        return found

    def conversation(self) -> list[str]:
        done = self.run("sessions", "show", self.session, "--json")
        messages = json.loads(done.stdout)["messages"]
        return [text for m in messages if m["type"] == "user" and (text := said(m))]


def said(entry: dict[str, Any]) -> str:
    content: str | Sequence[Any] = entry["message"]["content"]
    if isinstance(content, str):
        return content
    return "".join(b["text"] for b in content if b.get("type") == "text")
