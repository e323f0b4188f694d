"""Input decoding: turns terminal input into keys and pastes, and distinguishes Escape from Alt.

The decoder is a state machine without IO. It wraps prompt_toolkit's parser, which handles the
ordinary keys. Replies from the terminal are separated from keys and passed to `answered`. If the
end of a paste never arrives, the keys are not blocked: the received part is pasted after a pause in
the input, or on Ctrl-C.

Decision: docs/decisions/180-terminal-screen.md
"""

import re
from collections.abc import Callable

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

# A key that no keyboard has. It stands for Escape pressed alone, without ambiguity.
ESCAPE = Keys.F24
# Enter with Shift, Alt or Control, if the terminal reports it.
NEWLINE = Keys.F23
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
# Ctrl-C after part of a paste, in either encoding.
GIVEN_UP = re.compile(r"(?:\x03|\x1b\[99;\d+u)\Z")
# The start of an incomplete sequence.
UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:?<>=$ ]*|\][\w;:/?]{0,60}\x1b?)?\Z")
# The start of a reply. No key starts like this, and the rest may arrive slowly.
ANSWERING = re.compile(r"\x1b(?:\[\?[0-9;]*\$?|\]\d[\w;:/?]*\x1b?)\Z")
SPECIAL = re.compile(
    r"\x1b\[(?:(?P<code>\d+)(?::\d*)*(?:;(?P<mods>\d*)(?::(?P<kind>\d+))?(?:;[\d:]*)?)?u"
    r"|(?P<reply>\?[0-9;]*(?:c|u|\$y))"
    r"|(?P<focus>[IO])"
    r"|27;(?P<xmods>\d+);(?P<xcode>\d+)~"
    r"|(?P<paste>200~))"
    r"|\x1b(?P<enter>[\r\n])"
    r"|\x1b(?P<color>\]\d[\w;:/?]{0,60})(?:\x07|\x1b\\)"
)
SHIFT, ALT, CONTROL = 1, 2, 4
NAMED = {13: Keys.ControlM, 9: Keys.ControlI, 127: Keys.ControlH, 8: Keys.ControlH}


class Typed:
    """A decoder of terminal input.

    `feed` takes input and returns keys. `flush` is called when no more input arrives for now, and
    returns the keys of input that was held back.
    """

    def __init__(self, answered: Callable[[str], object]) -> None:
        self._answered = answered
        self._keys: list[KeyPress] = []
        self._parser = Vt100Parser(self._keys.append)
        self._held = ""
        self._paste: list[str] | None = None
        self._pasted_last = ""
        # Whether the last paste was cut off; its rest may still arrive.
        self._broke_off = False
        # True while the terminal owes replies: an Escape may turn out to be the first byte of one.
        self.awaits_replies = False
        self._escape_was_key = False

    @property
    def is_pasting(self) -> bool:
        return self._paste is not None

    @property
    def holds_escape(self) -> bool:
        """True while a single Escape is held back, because it may be the start of a sequence."""
        return self._held == "\x1b"

    def feed(self, text: str) -> list[KeyPress]:
        text, self._held = self._held + text, ""
        if self._escape_was_key:
            reply = text if text.startswith("\x1b") else f"\x1b{text}"
            self._escape_was_key = self.awaits_replies and begins_reply(reply)
            text = reply if self._escape_was_key else text
        if self._broke_off:
            self._resume(text)
        while text:
            text = self._go_on_pasting(text) if self._paste is not None else self._keys_of(text)
        return self._taken()

    def flush(self) -> list[KeyPress]:
        """Return the keys of incomplete input that was held back.

        A single Escape is returned as the Escape key.
        """
        text, self._held = self._held, ""
        if text == "\x1b":
            self._press(ESCAPE, text)
            self._escape_was_key = True
        elif self._paste is not None:
            self._break_off()
        elif ANSWERING.match(text):
            self._held = text
        else:
            # The input was not a reply after all. If Escape has already been pressed as a key, only
            # the rest is parsed.
            self._parser.feed(text.removeprefix("\x1b") if self._escape_was_key else text)
            self._parser.flush()
        return self._taken()

    def _taken(self) -> list[KeyPress]:
        keys = self._keys[:]
        self._keys.clear()
        return keys

    def _press(self, key: Keys | str, data: str) -> None:
        self._keys.append(KeyPress(key, data))

    def _go_on_pasting(self, text: str) -> str:
        """Collect pasted text; return the input that follows the paste."""
        assert self._paste is not None
        # The end marker may be split, too.
        seen = self._pasted_last + text
        at = seen.find(PASTE_END)
        if at < 0:
            given_up = GIVEN_UP.search(text)
            self._paste.append(text[: given_up.start()] if given_up else text)
            self._pasted_last = seen[1 - len(PASTE_END) :]
            if given_up:
                self._break_off()
            return ""
        pasted_text = "".join([*self._paste, text])
        end = len(pasted_text) - len(seen) + at
        self._pasted(pasted_text[:end])
        return pasted_text[end + len(PASTE_END) :]

    def _pasted(self, text: str) -> None:
        self._paste, self._pasted_last = None, ""
        self._press(Keys.BracketedPaste, text.replace("\r\n", "\n").replace("\r", "\n"))

    def _break_off(self) -> None:
        """Stop waiting for the end of a paste, and paste the part received so far."""
        self._pasted("".join(self._paste or ()))
        self._broke_off = True

    def _resume(self, text: str) -> None:
        """Treat complete lines that arrive right after a cut-off paste as the rest of that paste.

        No user types that fast, and each line end would otherwise send the prompt.
        """
        self._broke_off = False
        has_lines = len(text) > 1 and ("\r" in text or "\n" in text)
        if PASTE_END in text or has_lines:
            begins = text.find(PASTE_BEGIN)
            if begins < 0 or -1 < text.find(PASTE_END) < begins:
                self._paste = []

    def _keys_of(self, text: str) -> str:
        """Decode keys up to the start of a paste; return the input after the start marker."""
        at = 0
        for match in SPECIAL.finditer(text):
            self._plain(text[at : match.start()])
            at = match.end()
            if match["paste"]:
                self._paste = []
                return text[at:]
            self._special(match)
        rest = text[at:]
        unfinished = UNFINISHED.search(rest)
        if unfinished is not None:
            rest, self._held = rest[: unfinished.start()], unfinished[0]
        self._plain(rest)
        return ""

    def _plain(self, text: str) -> None:
        self._parser.feed(text)

    def _special(self, match: re.Match[str]) -> None:
        if match["reply"] or match["color"]:
            self._answered(match["reply"] or match["color"])
        elif match["focus"]:
            self._answered(match["focus"])
        elif match["enter"]:
            self._press(NEWLINE, match[0])
        elif match["kind"] != "3":  # kind 3 is the release of a key
            code = int(match["code"] or match["xcode"])
            self._coded(code, int(match["mods"] or match["xmods"] or 1) - 1, match[0])

    def _coded(self, code: int, mods: int, data: str) -> None:
        """Handle a key code of the keyboard protocol.

        Emit the key that a terminal without the protocol would send.
        """
        if code == 27:
            self._press(ESCAPE, data)
        elif code == 13 and mods & (SHIFT | ALT | CONTROL):
            self._press(NEWLINE, data)
        elif code == 9 and mods & SHIFT:
            self._press(Keys.BackTab, data)
        elif code in NAMED:
            self._modified(NAMED[code], mods, data)
        elif code < 0x110000 and (character := chr(code)).isprintable():
            self._character(character, mods)

    def _modified(self, key: Keys, mods: int, data: str) -> None:
        if mods & ALT:
            self._press(Keys.Escape, "")
        self._press(key, data)

    def _character(self, character: str, mods: int) -> None:
        if mods & SHIFT:
            character = character.upper()
        if mods & CONTROL:
            control = chr(ord(character.upper()) & 0x1F)
            prefix = "\x1b" if mods & ALT else ""
            self._plain(prefix + control)
        elif mods & ALT:
            self._plain(f"\x1b{character}")
        else:
            self._press(character, character)


def begins_reply(text: str) -> bool:
    """Return whether text starts with a reply from the terminal, or may become one."""
    match = SPECIAL.match(text)
    if match is not None:
        return bool(match["reply"] or match["color"] or match["focus"])
    return UNFINISHED.match(text) is not None
