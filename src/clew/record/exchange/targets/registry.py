"""The export formats of other programs, and the commands that resume each. Does no I/O."""

from collections.abc import Callable
from typing import TypeAlias

from clew.record.exchange.targets.codex import codex_id, encode_codex
from clew.record.exchange.targets.gemini import encode_gemini, gemini_id
from clew.record.exchange.targets.kimi import encode_kimi, kimi_id
from clew.record.exchange.targets.messages import encode_anthropic, encode_atif, encode_openai
from clew.record.exchange.targets.opencode import encode_opencode, opencode_id
from clew.record.exchange.targets.pi import encode_pi, pi_id
from clew.record.exchange.targets.qwen import encode_qwen, qwen_id
from clew.record.exchange.targets.turns import ExportedSession
from clew.record.exchange.targets.vibe import encode_vibe, vibe_id

Encode: TypeAlias = Callable[[ExportedSession], bytes]

TARGETS: dict[str, Encode] = {
    "anthropic": encode_anthropic,
    "atif": encode_atif,
    "codex": encode_codex,
    "gemini": encode_gemini,
    "kimi": encode_kimi,
    "openai": encode_openai,
    "opencode": encode_opencode,
    "pi": encode_pi,
    "qwen": encode_qwen,
    "vibe": encode_vibe,
}
# The ID of an exported session in programs that can continue it.
IDS: dict[str, Callable[[ExportedSession], str]] = {
    "codex": codex_id,
    "gemini": gemini_id,
    "kimi": kimi_id,
    "opencode": opencode_id,
    "pi": pi_id,
    "qwen": qwen_id,
    "vibe": vibe_id,
}
