"""A small host program: starts clew, writes lines of JSON, reads frames."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.fronts.headless.piped import Piped

Json: TypeAlias = dict[str, Any]
BASE = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


class Hosted(Piped):
    """A running clew. `frames` are all frames so far, in order."""

    def __init__(self, home: Path, url: str, *args: str, **environ: str) -> None:
        super().__init__(home, url, *BASE, *args, environ=environ)
        self.frames: list[Json] = []

    def send(self, **frame: Any) -> None:
        self.write(json.dumps(frame).encode() + b"\n")

    def say(self, content: Any, **fields: Any) -> None:
        self.send(type="user", message={"role": "user", "content": content}, **fields)

    def ask(self, subtype: str, **fields: Any) -> Json:
        """Send a control request and wait for its answer."""
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
        """Read frames up to the first for which the condition is true; fail if clew ends before."""
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
        """Return the next control request from clew."""
        return self.until(
            lambda f: f["type"] == "control_request" and f["request"]["subtype"] == subtype
        )

    def end(self) -> int:
        """Close the input, read the remaining frames, and wait for the exit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.frames += [json.loads(line) for line in self.process.stdout]
        return self.process.wait(timeout=30)

    def kinds(self) -> list[str]:
        return [f.get("subtype") or f["type"] for f in self.frames]
