"""What happens in a session, a line an event, for whoever looks for a fault: when, what, how long.

Switched on by hand alone. Must never write a secret: every line goes through the mask.
"""

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TextIO, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.agent.conversation import unwatched
from clew.agent.deps import Emit
from clew.agent.events import EngineEvent
from clew.agent.hooks.run import SessionHooks
from clew.core.messages.encoding import encode
from clew.core.messages.errors import SettingsError, in_words
from clew.core.stream.events import BlockFinished, MessageStarted, TextDelta
from clew.parts.context import Ground, Thread
from clew.record.transcript.files import Files
from clew.system.clock import now
from clew.system.config.mask import mask
from clew.version import VERSION

# Texts of the model on their way to whoever shows them: hooks are told, and may put other words there.


Watch: TypeAlias = Callable[[Emit], Emit]


def displaying(
    hooks: SessionHooks, watch: Watch, new_id: Callable[[], str], *, is_screen: bool
) -> Watch:
    def watched(emit: Emit) -> Emit:
        return Display(hooks, watch(emit), new_id(), is_screen=is_screen).emit

    return watched


class Display:
    """One turn's. `is_screen`: whether a person sees the words that come out here."""

    def __init__(self, hooks: SessionHooks, emit: Emit, turn_id: str, *, is_screen: bool) -> None:
        self._hooks = hooks
        self._emit = emit
        self._turn_id = turn_id
        self._is_screen = is_screen
        self._is_heard = False
        self._message_id = ""
        self._index = 0

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case MessageStarted():
                self._is_heard = self._hooks.hears("MessageDisplay")
                self._message_id, self._index = str(event.message.get("id") or ""), 0
            case TextDelta() if self._is_heard and self._is_screen:
                return
            case BlockFinished() if self._is_heard and event.block.get("type") == "text":
                text = event.block["text"]
                shown = await self._shown(text) if text else text
                if self._is_screen:
                    await self._emit(TextDelta(index=event.index, text=shown))
                    event = replace(event, block=event.block | {"text": shown})
            case _:
                pass
        await self._emit(event)

    async def _shown(self, text: str) -> str:
        fields = {
            "turn_id": self._turn_id,
            "message_id": self._message_id,
            "index": self._index,
            "final": True,
            "delta": text,
        }
        self._index += 1
        said = await self._hooks.fire("MessageDisplay", fields, self._emit)
        return text if said.shown is None else said.shown


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
# Many and small: they are counted, not told.
COUNTED = frozenset(["TextDelta", "ThinkingDelta", "InputDelta", "Streamed"])


class Debugging:
    """Writes to `file`, at once. `kinds`: only these; empty: everything."""

    def __init__(self, file: TextIO, kinds: Iterable[str], secrets: tuple[str, ...]) -> None:
        self._file = file
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
            told = ", ".join(f"{many} {what}" for what, many in self._counted.items())
            self._counted = {}
            self.line(told)
        self.line(f"{name} {encode(msgspec.to_builtins(event)).decode('utf-8', 'replace')}")

    def line(self, words: str) -> None:
        at_s, before_s = time.monotonic(), self._last_s
        self._last_s = at_s
        told = mask(words, self._secrets).replace("\n", "\\n")
        cut = (
            f"{told[:SHOWN_CHARS]}… ({len(told):,} characters)" if len(told) > SHOWN_CHARS else told
        )
        self._file.write(f"{now()} +{(at_s - before_s) * 1000:.1f} ms {cut}\n")
        self._file.flush()


def debugging(ground: Ground, thread: Thread, opened: AsyncExitStack) -> Watch:
    """What emitters go through: nothing, unless somebody asked."""
    options = ground.options
    if options.debug is None:
        return unwatched
    made = Debugging(file_of(ground, thread, opened), options.debug_kinds, ground.secrets)
    layers = ", ".join(f"{layer.file or layer.scope}" for layer in ground.began.layers)
    made.line(
        f"clew {VERSION}, session {thread.session_id}, model {thread.model.id}, "
        f"mode {ground.rules.mode}, folder {ground.cwd}, settings: {layers or 'none'}"
    )
    return made.watch


def place_of(ground: Ground, thread: Thread) -> str:
    """Where it is written; empty where nobody asked for it."""
    named = ground.options.debug
    if named is None:
        return ""
    if named == STDERR:
        return "standard error"
    own = ground.began.places.own / "debug" / f"{thread.session_id}.txt"
    return str(Path(ground.cwd, named) if named else own)


def file_of(ground: Ground, thread: Thread, opened: AsyncExitStack) -> TextIO:
    named = ground.options.debug or ""
    if named == STDERR:
        return sys.stderr
    path = Path(place_of(ground, thread))
    try:
        if not named:
            Files().make_folder(path.parent)
        file = path.open("a", encoding="utf-8", errors="backslashreplace")
        path.chmod(0o600)
    except OSError as error:
        raise SettingsError(f"--debug: {path}: {in_words(error)}") from None
    opened.callback(file.close)
    return file
