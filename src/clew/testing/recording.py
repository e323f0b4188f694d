"""A recorded run as a scenario: raw bodies, status and headers, without secrets.

Requests are not recorded but only summarized in notes, because they contain the user's prompts and
files. Answers are replayed in order, or by the hash of the request's body. This module does no I/O.

Decision: docs/decisions/040-scripted-models.md
"""

from typing import Literal, TypeAlias

from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.testing.scenario_rules import Endpoint, describe_tail, facts_of, hash_body

Match: TypeAlias = Literal["order", "body"]

# Headers specific to the connection, the time or the account; another run must not repeat them.
DROPPED = frozenset({
    "alt-svc", "anthropic-organization-id", "authorization", "cf-cache-status", "cf-ray",
    "connection", "content-encoding", "content-length", "date", "keep-alive", "proxy-authenticate",
    "server", "set-cookie", "transfer-encoding", "via", "x-api-key",
})  # fmt: skip
# Headers that an answer has by default; null if the recorded one lacked them.
OWN = ("content-type", "request-id")


class RecordedAnswer:
    """An answer while it is received. `broken` tells whether and how it was cut off."""

    def __init__(
        self, endpoint: Endpoint, body: Json, match: Match, secrets: tuple[str, ...]
    ) -> None:
        self._secrets = secrets
        self.endpoint: Endpoint = endpoint
        self.status: int | None = None
        self.headers: list[tuple[str, str]] = []
        self.pieces: list[bytes] = []
        self.broken: Literal["close", "reset"] | None = None
        self._note = _summary(body)
        self._when = {"body_sha256": hash_body(body)} if match == "body" else None

    def answer(self, *, chunks: bool) -> Json:
        """Return a scenario's answer that replays this one."""
        value: Json = {"note": self._note}
        if self._when is not None:
            value |= {"when": self._when, "times": 1}
        if self.status is None:
            return {
                **value,
                "body": "",
                "faults": [{"at": "headers", "cut": self.broken or "close"}],
            }
        body = self._without_secrets(b"".join(self.pieces))
        value |= {"status": self.status, "headers": self._kept_headers(), **_body(body)}
        if chunks and self.pieces:
            value["send"] = {"chunk_bytes": [len(piece) for piece in self.pieces]}
        if self.broken is not None:
            value["faults"] = [{"after_bytes": len(body), "cut": self.broken}]
        return value

    def _kept_headers(self) -> Json:
        kept_headers: Json = {
            name: self._without_secrets(value.encode()).decode()
            for name, value in self.headers
            if name not in DROPPED
        }
        return {name: None for name in OWN if name not in kept_headers} | kept_headers

    def _without_secrets(self, data: bytes) -> bytes:
        """Return data of the same length, with echoed credentials masked."""
        for secret in self._secrets:
            data = data.replace(secret.encode(), b"*" * len(secret.encode()))
        return data


class Recording:
    """The answers of a run, in the order of their requests."""

    def __init__(self, *, match: Match = "order", chunks: bool = False) -> None:
        self._match: Match = match
        self._chunks = chunks
        self.heard: list[RecordedAnswer] = []

    def begin(
        self, endpoint: Endpoint, body: Json, *, secrets: tuple[str, ...] = ()
    ) -> RecordedAnswer:
        heard = RecordedAnswer(endpoint, body, self._match, secrets)
        self.heard.append(heard)
        return heard

    def scenario(self) -> Json:
        groups: dict[Endpoint, list[Json]] = {"answers": [], "count_tokens": []}
        for heard in self.heard:
            groups[heard.endpoint].append(heard.answer(chunks=self._chunks))
        return {"scenario": 1, **{key: answers for key, answers in groups.items() if answers}}


def _summary(body: Json) -> str:
    facts = facts_of(body, 1)
    return f"{facts.model}, {format_count(facts.messages, 'message')}; {describe_tail(facts)}"


def _body(body: bytes) -> Json:
    """Return the body as a scenario's fields: as text if possible, so that it can be edited."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        from binascii import b2a_base64

        return {"body_base64": b2a_base64(body, newline=False).decode("ascii")}
