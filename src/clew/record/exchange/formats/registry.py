"""The formats that can be imported, and the detection of a source's format. Does no I/O."""

from clew.core.messages.errors import SessionError
from clew.record.exchange.formats import (
    ai_studio,
    aider,
    amp,
    antigravity,
    chatgpt,
    claude_ai,
    cline,
    codex,
    continue_dev,
    copilot,
    crush,
    cursor,
    factory,
    gemini,
    goose,
    grok,
    iflow,
    kimi,
    one_file,
    opencode,
    openhands,
    pi,
    qwen,
    specstory,
    streams,
    trajectory,
    vibe,
)
from clew.record.exchange.formats.frame import Format, Source

FORMATS = tuple(
    module.FORMAT
    for module in (
        ai_studio, aider, amp, antigravity, chatgpt, claude_ai, cline, codex,
        continue_dev, copilot, crush, cursor, factory, gemini, goose, grok, iflow, kimi,
        opencode, openhands, pi, qwen, specstory, streams, trajectory, vibe,
    )
)  # fmt: skip
TITLES = {item.name: item.title for item in FORMATS}


def find_format(source: Source) -> Format | None:
    """Return the format that recognizes a source, or None. Raise an error if several do."""
    matching = [item for item in FORMATS if item.recognizes(source)]
    if len(matching) > 1:
        names = " and ".join(item.title for item in matching)
        raise SessionError(f"the format is ambiguous: {names}")
    if not matching and one_file.FORMAT.recognizes(source):
        return one_file.FORMAT
    return matching[0] if matching else None
