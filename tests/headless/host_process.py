"""A host program in a few lines: starts clew, writes lines of JSON, reads frames."""

import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from tests.headless.clew_process import command, environment

Json: TypeAlias = dict[str, Any]
BASE = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


class Hosted:
    """A running clew. `frames` are all that came so far, in their order."""

    def __init__(self, home: Path, url: str, *args: str, **environ: str) -> None:
        work = home / "work"
        work.mkdir(exist_ok=True)
        self.frames: list[Json] = []
        self._errors = home / "stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command(*BASE, *args),
                cwd=work,
                env=environment(home, url) | environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __enter__(self) -> "Hosted":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, **frame: Any) -> None:
        self.write(json.dumps(frame).encode() + b"\n")

    def say(self, content: Any, **fields: Any) -> None:
        self.send(type="user", message={"role": "user", "content": content}, **fields)

    def ask(self, subtype: str, **fields: Any) -> Json:
        """Sends a control request and waits for its answer."""
        request_id = f"req_{len(self.frames)}_{subtype}"
        request = {"subtype": subtype, **fields}
        self.send(type="control_request", request_id=request_id, request=request)
        found = self.until(
            lambda f: f["type"] == "control_response" and f["response"]["request_id"] == request_id
        )
        response: Json = found["response"]
        return response

    def answer(self, request: Json, **response: Any) -> None:
        held = {
            "subtype": "success",
            "request_id": request["request_id"],
            "response": response,
        }
        self.send(type="control_response", response=held)

    def until(self, holds: Callable[[Json], Any]) -> Json:
        """Reads frames up to the first for which it holds; what ends before is an error."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            frame: Json = json.loads(line)
            self.frames.append(frame)
            if holds(frame):
                return frame
        raise AssertionError(f"clew ended first: {self.frames[-3:]} {self.errors()!r}")

    def result(self) -> Json:
        return self.until(lambda f: f["type"] == "result")

    def request(self, subtype: str) -> Json:
        """The next control request of clew's."""
        return self.until(
            lambda f: f["type"] == "control_request" and f["request"]["subtype"] == subtype
        )

    def end(self) -> int:
        """Says nothing more and waits for the exit; the rest of the frames is read."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.frames += [json.loads(line) for line in self.process.stdout]
        return self.process.wait(timeout=30)

    def errors(self) -> str:
        return self._errors.read_text("utf-8")

    def kinds(self) -> list[str]:
        return [f.get("subtype") or f["type"] for f in self.frames]
