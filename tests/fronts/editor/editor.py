"""A small editor for tests.

Starts `clew acp`, sends requests, answers clew's, and keeps the updates.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.fronts.headless.piped import Piped

Json: TypeAlias = dict[str, Any]
# For the params of a request of clew's: the result, or an error object under "error".
Answerer: TypeAlias = Callable[[Json], Json]


class Editor(Piped):
    """A running `clew acp`. `told` are the updates so far, `asked` the requests."""

    def __init__(self, home: Path, url: str, *args: str, **environ: str) -> None:
        super().__init__(home, url, "acp", *args, environ=environ)
        self.told: list[Json] = []
        self.asked: list[Json] = []
        self.answers: dict[str, Answerer] = {}
        self.on_update: Callable[[Json], None] = lambda _: None
        self._results: dict[int, Json] = {}
        self._last_id = 0

    # -- what the editor says

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, method: str, /, **params: Any) -> int:
        """Send a request without waiting for its answer."""
        self._last_id += 1
        self.send(id=self._last_id, method=method, params=params)
        return self._last_id

    def ask(self, method: str, /, **params: Any) -> Json:
        """Return the result of a request; an error fails the test."""
        answer = self.answer(self.begin(method, **params))
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def error(self, method: str, /, **params: Any) -> Json:
        answer = self.answer(self.begin(method, **params))
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    def tell(self, method: str, /, **params: Any) -> None:
        self.send(method=method, params=params)

    def initialize(self, **capabilities: Any) -> Json:
        return self.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)

    def new(self, **fields: Any) -> str:
        params = {"cwd": str(self.work), "mcpServers": [], **fields}
        session_id: str = self.ask("session/new", **params)["sessionId"]
        return session_id

    def prompt(self, session_id: str, text: str) -> Json:
        return self.ask("session/prompt", sessionId=session_id, prompt=[words(text)])

    # -- what it hears

    def answer(self, identity: int) -> Json:
        """Read until the answer to a request arrives; answer clew's requests in the meantime."""
        while identity not in self._results:
            self._read()
        return self._results.pop(identity)

    def until(self, holds: Callable[[Json], Any]) -> Json:
        """Read until an update for which the condition is true."""
        before = len(self.told)
        while True:
            for update in self.told[before:]:
                if holds(update):
                    return update
            before = len(self.told)
            self._read()

    def _read(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"clew ended: {self.errors()}"
        message: Json = json.loads(line)
        if "method" not in message:
            self._results[message["id"]] = message
        elif message["method"] == "session/update":
            self.told.append(
                message["params"]["update"] | {"sessionId": message["params"]["sessionId"]}
            )
            self.on_update(self.told[-1])
        elif "id" in message:
            self.asked.append(message)
            answerer = self.answers.get(message["method"])
            if answerer is not None:
                said = answerer(message["params"])
                self.send(id=message["id"], **(said if "error" in said else {"result": said}))
        else:
            self.asked.append(message)

    def end(self) -> int:
        """Close the input and wait for the exit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.read()
        return self.process.wait(timeout=30)

    # -- what it shows

    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.told]

    def of(self, kind: str) -> list[Json]:
        return [update for update in self.told if update["sessionUpdate"] == kind]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"].get("text", "") for update in self.of(kind))


def words(text: str) -> Json:
    return {"type": "text", "text": text}


def chosen(option: str) -> Answerer:
    """Answer a permission request with the first option of a kind, or with that ID."""

    def answer(params: Json) -> Json:
        found = next(o for o in params["options"] if option in (o["kind"], o["optionId"]))
        return {"outcome": {"outcome": "selected", "optionId": found["optionId"]}}

    return answer
