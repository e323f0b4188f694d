"""Very many sessions, written fast: the same from the same number."""

import random
import uuid
from pathlib import Path

import msgspec

from clew.record.transcript.paths import get_project_dir

AT = "2026-01-02T03:04:05.678Z"
WORDS = (Path(random.__file__).read_text("utf-8") + Path(uuid.__file__).read_text("utf-8")).split()


def generate(home: Path, *, sessions: int, projects: int, entries: int, words: int) -> list[Path]:
    """Sessions of `entries` lines of `words` words, in turn over the projects `/work/pN`."""
    chance = random.Random(7)
    folders = [get_project_dir(home, f"/work/p{n}") for n in range(projects)]
    for folder in folders:
        folder.mkdir(parents=True)
    made = []
    for number in range(sessions):
        session_id = str(uuid.UUID(int=(number + 1) << 80, version=4))
        lines = []
        parent = None
        for n in range(entries):
            start = chance.randrange(len(WORDS) - words)
            text = " ".join(WORDS[start : start + words])
            if n == 0:
                text = f"task number {number}: {text}"
            name = f"{number:08x}-0000-4000-8000-{n:012x}"
            lines.append(_line(n, name, parent, session_id, f"/work/p{number % projects}", text))
            parent = name
        path = folders[number % projects] / f"{session_id}.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        made.append(path)
    return made


def _line(n: int, name: str, parent: str | None, session_id: str, cwd: str, text: str) -> bytes:
    kind = "assistant" if n % 2 else "user"
    message: dict[str, object] = {"role": kind, "content": text}
    if n % 2:
        message |= {
            "id": f"msg_{name}",
            "type": "message",
            "model": "claude-opus-5-5",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 7},
        }
    return msgspec.json.encode(
        {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": cwd,
            "sessionId": session_id,
            "version": "0.1.0",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": name,
            "timestamp": AT,
            **({"requestId": f"req_{name}"} if n % 2 else {}),
        }
    )
