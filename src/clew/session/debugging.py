"""A debug log of a session's events: time, event and duration, one line per event.

The log is a file. For programs, events go to the loggers `clew.api`, `clew.tools`, `clew.hooks` and
`clew.session` instead. The log must be enabled explicitly. It must never contain a secret: every
line is masked.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TextIO, TypeAlias

import msgspec

from clew.agent.deps import Emit
from clew.agent.events import EngineEvent
from clew.core.messages.encoding import encode
from clew.core.messages.errors import SettingsError, describe_error
from clew.parts.context import Ground, Thread
from clew.record.transcript.files import Files
from clew.system.clock import get_timestamp
from clew.system.config.mask import mask
from clew.version import VERSION

STDERR = "-"
SHOWN_CHARS = 400
# The kinds that `--debug=KINDS` names, and the events of each.
KINDS: dict[str, frozenset[str]] = {
    "api": frozenset(
        [
            "Asking",
            "Waiting",
            "Retrying",
            "Held",
            "Withdrawn",
            "FellBack",
            "Shrunk",
            "MessageStarted",
            "MessageFinished",
            "UsageChanged",
            "StreamFault",
            "Ignored",
            "Doubted",
            "Repaired",
        ]
    ),
    "tools": frozenset(
        ["ToolStarted", "ToolProgressed", "ToolFinished", "ToolUseReady", "ToolUseUnusable"]
    ),
    "hooks": frozenset(["HookStarted", "HookFinished"]),
    "session": frozenset(
        ["Recorded", "BlockSaid", "Noticed", "NotSaved", "TurnEnded", "Signalled", "Printed"]
    ),
}
# Frequent small events, which are counted instead of logged.
COUNTED = frozenset(["TextDelta", "ThinkingDelta", "InputDelta", "Streamed"])


# The kind of each event.
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
# Writes a line: the kind of event, the milliseconds since the previous one, and the text.
WriteLine: TypeAlias = Callable[[str, float, str], None]


class Debugging:
    """Writes each event to the log at once. If `kinds` is not empty, writes only those kinds."""

    def __init__(self, write: WriteLine, kinds: Iterable[str], secrets: tuple[str, ...]) -> None:
        self._write = write
        self._names = frozenset[str]().union(*(KINDS[kind] for kind in kinds))
        self._secrets = secrets
        self._last_s = time.monotonic()
        self._counted: dict[str, int] = {}

    def watch(self, emit: Emit) -> Emit:
        async def watched(event: EngineEvent) -> None:
            self.event(event)
            await emit(event)

        return watched

    def event(self, event: EngineEvent) -> None:
        name = type(event).__name__
        if self._names and name not in self._names:
            return
        if name in COUNTED:
            self._counted[name] = self._counted.get(name, 0) + 1
            return
        if self._counted:
            counts = ", ".join(f"{many} {what}" for what, many in self._counted.items())
            self._counted = {}
            self.line(counts, "api")
        words = encode(msgspec.to_builtins(event)).decode("utf-8", "replace")
        self.line(f"{name} {words}", KIND_OF.get(name, "session"))

    def line(self, words: str, kind: str = "session") -> None:
        at_s, before_s = time.monotonic(), self._last_s
        self._last_s = at_s
        line = mask(words, self._secrets).replace("\n", "\\n")
        cut = (
            f"{line[:SHOWN_CHARS]}… ({len(line):,} characters)" if len(line) > SHOWN_CHARS else line
        )
        self._write(kind, (at_s - before_s) * 1000, cut)


def write_to_file(file: TextIO) -> WriteLine:
    def write(_: str, after_ms: float, text: str) -> None:
        file.write(f"{get_timestamp()} +{after_ms:.1f} ms {text}\n")
        file.flush()

    return write


def write_to_loggers(kind: str, after_ms: float, text: str) -> None:
    logging.getLogger(f"clew.{kind}").debug("+%.1f ms %s", after_ms, text)


def watch_for_debugging(
    ground: Ground, thread: Thread, opened: AsyncExitStack
) -> Callable[[Emit], Emit]:
    """Open the debug log. Return a function that wraps an emitter so that its events are logged.

    Without the debug option, events go to the program's loggers.
    """
    is_file = ground.options.debug is not None
    write = write_to_file(file_of(ground, thread, opened)) if is_file else write_to_loggers
    log = Debugging(write, ground.options.debug_kinds, ground.secrets)
    layers = ", ".join(f"{layer.file or layer.scope}" for layer in ground.began.layers)
    log.line(
        f"clew {VERSION}, session {thread.session_id}, model {thread.model.id}, "
        f"mode {ground.rules.mode}, folder {ground.cwd}, settings: {layers or 'none'}"
    )
    return log.watch


def place_of(ground: Ground, thread: Thread) -> str:
    """Return the location of the debug log, as text for the user."""
    target = ground.options.debug or ""
    if target == STDERR:
        return "standard error"
    own = ground.began.places.own / "debug" / f"{thread.session_id}.txt"
    return str(Path(ground.cwd, target) if target else own)


def file_of(ground: Ground, thread: Thread, opened: AsyncExitStack) -> TextIO:
    target = ground.options.debug or ""
    if target == STDERR:
        return sys.stderr
    path = Path(place_of(ground, thread))
    try:
        if not target:
            Files().make_folder(path.parent)
        file = path.open("a", encoding="utf-8", errors="backslashreplace")
        path.chmod(0o600)
    except OSError as error:
        raise SettingsError(f"--debug: {path}: {describe_error(error)}") from None
    opened.callback(file.close)
    return file
