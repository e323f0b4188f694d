"""A service with preserved thinking: each signed thinking block is bound to everything before it.

It checks requests independently and deliberately shares no code with `clew.core.normalize.prefix`.
As with the real service, a block's signature contains what the block is bound to, and every request
is checked without stored state. The rule is the vendor's, as described by its pages on preserved
thinking and by `anthropic` 2.12. This service must never repair a request, and does no I/O.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json

Rule: TypeAlias = Callable[[Json], Json]

CONTROLS = "thinking-binding-controls-2026-08-01"
THOUGHTS = ("thinking", "redacted_thinking")
# Models whose thinking is bound, and the other models whose thinking each of them can read.
MODEL = "model_binding_mismatch"
PREFIX = "prefix_binding_mismatch"
READS: dict[str, frozenset[str]] = {
    "claude-fable-5-2": frozenset({"claude-fable-5-1", "claude-opus-5-5", "claude-opus-5"}),
    "claude-fable-5-1": frozenset({"claude-opus-5-5", "claude-opus-5"}),
    "claude-opus-5-5": frozenset({"claude-opus-5"}),
    "claude-sonnet-5-5": frozenset({"claude-opus-5"}),
    "claude-haiku-5-5": frozenset(),
}
REFUSAL = (
    "{path}: Invalid `signature` in `{kind}` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
NEEDS_BETA = f" That setting requires the `{CONTROLS}` value in the `anthropic-beta` header."
UNKNOWN_FIELD = "thinking.{type}.block_binding: Extra inputs are not permitted"


class Judgement(Struct, kw_only=True):
    """The verdict on a request: refused, or accepted with some thinking blocks left out."""

    refusal: str | None
    # `input_transformations`, for requests that ask for them.
    dropped: list[Json]
    # The signature of the last thinking block that the model saw.
    last: str


class Preserving:
    """A rule that signs the thinking blocks in the answers of `rule`.

    `enforces`: True for a new account, whose mismatches are refused. `has_control`: False for a
    gateway without support for `block_binding`. `rewrites`: True for a gateway that adds
    different text to the front of each request.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        enforces: bool = True,
        has_control: bool = True,
        rewrites: bool = False,
        reads: Mapping[str, frozenset[str]] = READS,
    ) -> None:
        self._rule = rule
        self._enforces = enforces
        self._has_control = has_control
        self._rewrites = rewrites
        self._reads = reads
        self._signed = 0
        self._requests = 0
        self._judged: Judgement | None = None
        # Every thinking block omitted from a request, by signature, with the reason.
        self.left_out: dict[str, str] = {}
        self.refusals: list[str] = []

    def refusal(self, body: Json, betas: str) -> str | None:
        """Return why a request is refused, or None if it is accepted."""
        self._requests += 1
        self._judged = judged = self.judge(body, betas)
        if judged.refusal is not None:
            self.refusals.append(judged.refusal)
        return judged.refusal

    def __call__(self, body: Json) -> Json:
        judged = self._judged or self.judge(body, "")
        answer = self._rule(body)
        if "content" not in answer and "text" not in answer:
            return answer  # not a message
        content = answer.get("content", [answer.get("text", "")])
        signed = self.sign(body, content, judged.last)
        rest = {key: value for key, value in answer.items() if key not in ("text", "content")}
        fields = {"input_transformations": judged.dropped} if judged.dropped else {}
        return rest | {"content": signed, "message": rest.get("message", {}) | fields}

    def judge(self, body: Json, betas: str) -> Judgement:
        thinking = body.get("thinking") or {}
        has_beta = CONTROLS in betas and self._has_control
        if "block_binding" in thinking and not has_beta:
            words = UNKNOWN_FIELD.format(type=thinking.get("type"))
            return Judgement(refusal=words, dropped=[], last="")
        behavior = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior")
        reader, last, refused = body["model"], "", ""
        dropped: list[Json] = []
        before = self._beginning(body)
        for i, message in enumerate(body["messages"]):
            is_torn = False
            for j, block in enumerate(_blocks(message)):
                if block["type"] not in THOUGHTS:
                    before.follow(message["role"], _plain(block))
                    is_torn = False
                    continue
                path, signature = f"messages.{i}.content.{j}", _signature(block)
                claim = _read(signature)
                if claim is None:
                    words = f"{path}: Invalid `signature` in `{block['type']}` block"
                    return Judgement(refusal=words, dropped=[], last="")
                reason = self._fault(claim, reader, before, last, is_torn=is_torn)
                if reason == PREFIX and behavior is None and not self._enforces:
                    reason = ""  # older accounts are not enforced
                if not reason:
                    last = signature
                    continue
                if reason == PREFIX and behavior != "drop_block" and not refused:
                    refused = REFUSAL.format(path=path, kind=block["type"])
                is_torn = True
                dropped.append({"type": "thinking_dropped", "path": path, "reason": reason})
        if refused:
            words = refused if has_beta else refused + NEEDS_BETA
            return Judgement(refusal=words, dropped=[], last="")
        for item in dropped:
            _, i, _, j = item["path"].split(".")
            block = _blocks(body["messages"][int(i)])[int(j)]
            self.left_out.setdefault(_signature(block), item["reason"])
        return Judgement(refusal=None, dropped=dropped if has_beta else [], last=last)

    def _fault(
        self, claim: Json, reader: str, before: "PrefixHash", last: str, *, is_torn: bool
    ) -> str:
        """Return why a thinking block is not shown to the model, or an empty string if it is shown.

        `is_torn`: the block right before it in the same answer was omitted.
        """
        if claim["model"] != reader and claim["model"] not in self._reads.get(reader, ()):
            return MODEL
        if reader not in self._reads or claim["model"] not in self._reads:
            return ""
        fits = claim["prefix"] == before.state and (not last or claim["before"] == _short(last))
        return PREFIX if is_torn or not fits else ""

    def sign(self, body: Json, content: list[Any], last: str) -> list[Any]:
        """Return an answer's content with its thinking blocks signed and bound to their context.

        `last` is the signature of the last thinking block that the model saw.
        """
        before = self._beginning(body)
        for message in body["messages"]:
            for block in _blocks(message):
                if block["type"] not in THOUGHTS:
                    before.follow(message["role"], _plain(block))
        signed: list[Any] = []
        for content_block in content:
            block = (
                {"text": content_block} if isinstance(content_block, str) else dict(content_block)
            )
            if "thinking" in block or "redacted_thinking" in block:
                self._signed += 1
                claim = {"n": self._signed, "model": body["model"], "prefix": before.state}
                last = _written(claim | {"before": _short(last)})
                block["signature" if "thinking" in block else "redacted_thinking"] = last
            else:
                before.follow("assistant", _said(block))
            signed.append(block)
        return signed

    def _beginning(self, body: Json) -> "PrefixHash":
        """Return the hash of the system prompt and the tools, without deferred tools."""
        system = body.get("system") or []
        if isinstance(system, str):
            system = [{"type": "text", "text": system}]
        before = PrefixHash()
        before.follow("system", [_plain(block) for block in system])
        tools = [tool for tool in body.get("tools") or [] if not tool.get("defer_loading")]
        before.follow("tools", tools)
        if self._rewrites:
            before.follow("gateway", self._requests)
        return before


class PrefixHash:
    """A hash over everything before a position."""

    def __init__(self) -> None:
        self._all = sha256()

    def follow(self, role: str, what: Any) -> None:
        self._all.update(json.dumps([role, what], sort_keys=True).encode())

    @property
    def state(self) -> str:
        return self._all.hexdigest()


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _plain(block: Json) -> Json:
    """Return a block without fields that are not part of the conversation."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def _said(block: Json) -> Json:
    """Return a scripted block in the form in which the client sends it back."""
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    return {
        "type": "tool_use",
        "id": block["id"],
        "name": block["tool"],
        "input": block.get("input", {}),
    }


def _signature(block: Json) -> str:
    return str(block["signature" if block["type"] == "thinking" else "data"])


def _short(signature: str) -> str:
    return sha256(signature.encode()).hexdigest()[:24] if signature else ""


def _written(claim: Json) -> str:
    return base64.b64encode(json.dumps(claim).encode()).decode()


def _read(signature: str) -> Json | None:
    try:
        claim = json.loads(base64.b64decode(signature, validate=True))
    except (binascii.Error, ValueError):
        return None
    return claim if isinstance(claim, dict) and "prefix" in claim else None
