"""Git settings that start programs, read from the text of a configuration file. Does no I/O.

Owns the table of these settings and a parser for git's configuration format (git-config(1),
"Syntax"). Must never miss a setting that git would use: text that the parser cannot read is
reported as such.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from msgspec import Struct

from clew.core.regex import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap


# Settings whose value is a command or a directory of commands. `*` matches one subsection, which
# may contain dots.
PROGRAMS = (
    "browser.*.cmd", "browser.*.path",
    "core.alternaterefscommand", "core.askpass", "core.editor", "core.fsmonitor", "core.gitproxy",
    "core.hookspath", "core.pager", "core.sshcommand",
    "credential.helper", "credential.*.helper",
    "diff.external", "diff.*.command", "diff.*.textconv",
    "difftool.*.cmd", "difftool.*.path",
    "filter.*.clean", "filter.*.process", "filter.*.smudge",
    "gc.recentobjectshook",
    "gpg.program", "gpg.*.program", "gpg.*.defaultkeycommand",
    "guitool.*.cmd",
    "hook.*.command",
    "imap.tunnel", "init.templatedir", "instaweb.browser", "instaweb.httpd", "interactive.difffilter",
    "lfs.*.clean", "lfs.*.path", "lfs.*.smudge",
    "man.*.cmd", "man.*.path",
    "merge.*.driver",
    "mergetool.*.cmd", "mergetool.*.path",
    "pager.*",
    "remote.*.receivepack", "remote.*.uploadpack", "remote.*.vcs",
    "sendemail.*cmd", "sendemail.smtpserver", "sendemail.*.smtpserver", "sequence.editor",
    "tar.*.command", "trailer.*.cmd", "trailer.*.command",
    "uploadpack.packobjectshook",
)  # fmt: skip
_PROGRAMS = lazy_pattern(
    "|".join(re.escape(program).replace(r"\*", ".+") for program in PROGRAMS), re.DOTALL
)
# For these settings, a Boolean value only switches a built-in feature of git on or off.
_MAY_BE_BOOLEAN = lazy_pattern(r"core\.fsmonitor|pager\..+", re.DOTALL)
_BOOLEAN = lazy_pattern(r"|true|yes|on|false|no|off|[+-]?[0-9]+", re.IGNORECASE | re.ASCII)
# Settings that start a program only if the value has a certain form.
_SHELL = lazy_pattern(r"alias\..+|submodule\..+\.update", re.DOTALL)
_ADDRESSES = lazy_pattern(r"remote\..+\.(?:push)?url", re.DOTALL)
_REWRITES = lazy_pattern(r"url\.(.+)\.(?:push)?insteadof", re.DOTALL)
_INCLUDES = lazy_pattern(r"include\.path|includeif\..+\.path", re.DOTALL)

# The characters that git treats as white space. Any other white space is part of a value.
_SPACES = " \t\r\n"
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"'}
MAX_NAME_CHARS = 80


class Setting(Struct, frozen=True, kw_only=True):
    """One setting, with section and key in lower case.

    `value` is None if the file contains only the name.
    """

    name: str
    value: str | None


class UnreadableError(Exception):
    """The file is malformed, or this parser does not support it. The message names the line."""


def starts_program(setting: Setting) -> bool:
    """Return whether a setting makes git run another program."""
    value = setting.value or ""
    if _PROGRAMS.fullmatch(setting.name):
        return not (_MAY_BE_BOOLEAN.fullmatch(setting.name) and _BOOLEAN.fullmatch(value))
    if _SHELL.fullmatch(setting.name):
        return value.startswith("!")
    if _ADDRESSES.fullmatch(setting.name):
        return "::" in value
    rewritten = _REWRITES.fullmatch(setting.name)
    return rewritten is not None and "::" in rewritten[1]


def is_include(setting: Setting) -> bool:
    """Return whether a setting includes another configuration file, conditionally or not."""
    return bool(setting.value) and _INCLUDES.fullmatch(setting.name) is not None


def show_name(name: str) -> str:
    """Return a setting's name as one printable line, shortened if it is long."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= MAX_NAME_CHARS else f"{text[:MAX_NAME_CHARS]}..."


def read_settings(data: bytes) -> Iterator[Setting]:
    """Yield the settings of a configuration file in order.

    Raise `UnreadableError` if it is malformed.
    """
    if b"\0" in data:
        raise UnreadableError("it contains a NUL character")
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\r\n", "\n")
    yield from _Reader(text + "\n").settings()


class _Reader:
    """A parser at a position in a text that ends with a newline."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def settings(self) -> Iterator[Setting]:
        section = ""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in _SPACES:
                self._at += 1
            elif char in "#;":
                self._skip_line()
            elif char == "[":
                section = self._section()
            elif section and char.isascii() and char.isalpha():
                name = f"{section}.{self._match(_KEY).lower()}"
                yield Setting(name=name, value=self._value())
            else:
                raise self._fault()

    def _section(self) -> str:
        header = self._match(_SECTION)
        name, _, quoted = header[1:-1].partition('"')
        if not quoted:
            return name.strip().lower()
        subsection = re.sub(r"\\(.)", r"\1", quoted[:-1])
        return f"{name.strip().lower()}.{subsection}"

    def _value(self) -> str | None:
        self._match(_BLANKS)
        if self._text[self._at] == "\n":
            return None
        if self._text[self._at] != "=":
            raise self._fault()
        self._at += 1
        letters: list[str] = []
        length = 0
        is_quoted = False
        while (char := self._text[self._at]) != "\n":
            self._at += 1
            if char == "\\":
                escaped = self._text[self._at]
                self._at += 1
                if escaped != "\n" and escaped not in _ESCAPES:
                    raise self._fault()
                letters.append(_ESCAPES.get(escaped, ""))
                if self._at == len(self._text):
                    # The file ends inside the value.
                    self._at -= 1
            elif char == '"':
                is_quoted = not is_quoted
            elif not is_quoted and char in "#;":
                self._skip_line()
                break
            elif not is_quoted and char in _SPACES:
                if letters:
                    letters.append(char)
                continue
            else:
                letters.append(char)
            length = len(letters)
        if is_quoted:
            raise self._fault()
        return "".join(letters[:length])

    def _skip_line(self) -> None:
        self._at = self._text.index("\n", self._at)

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._fault()
        self._at = match.end()
        return match[0]

    def _fault(self) -> UnreadableError:
        line = self._text.count("\n", 0, self._at) + 1
        return UnreadableError(f"line {line} is invalid")


_KEY = lazy_pattern(r"[A-Za-z][A-Za-z0-9-]*")
_BLANKS = lazy_pattern(r"[ \t]*")
_SECTION = lazy_pattern(r'\[(?:[A-Za-z0-9.-]+|[A-Za-z0-9.-]+[ \t\r]+"(?:[^"\\\n]|\\[^\n])*")\]')


# The submodules listed in git's index. No I/O.


MODE = 0o160000
_MODE_BYTES = MODE.to_bytes(4, "big")
_KINDS = frozenset({0o040000, 0o100000, 0o120000, MODE})
_HEADER = struct.Struct(">4sII")
# Times, device and inode, then the mode, then owner, group and size. The object ID comes after
# them.
_FRONT_BYTES = 40
_EXTENDED, _LENGTH = 0x4000, 0x0FFF


def read_offset(data: bytes | mmap, at: int) -> tuple[int, int]:
    """Decode an offset in git's variable-length encoding.

    Return the value and the position after it.
    """
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def list_submodules(index: bytes) -> tuple[bytes, ...]:
    """Return the paths of submodules, relative to the top of the working tree."""
    if _MODE_BYTES not in index:
        return ()
    readings: list[list[bytes]] = []
    for oid_bytes in (20, 32):
        try:
            readings.append(list(_submodules(index, oid_bytes)))
        except (ValueError, IndexError, struct.error):
            continue
    if not readings:
        raise ValueError("the index is invalid")
    return tuple(path for reading in readings for path in reading)


def _submodules(index: bytes, oid_bytes: int) -> Iterator[bytes]:
    signature, version, count = _HEADER.unpack_from(index)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    at, name = _HEADER.size, b""
    for _ in range(count):
        mode = int.from_bytes(index[at + 24 : at + 28], "big")
        if mode & 0o170000 not in _KINDS:
            raise ValueError(mode)
        flags_at = at + _FRONT_BYTES + oid_bytes
        flags = int.from_bytes(index[flags_at : flags_at + 2], "big")
        begin = flags_at + (4 if flags & _EXTENDED else 2)
        if version == 4:
            dropped, begin = read_offset(index, begin)
            end = index.index(b"\0", begin)
            name = name[: max(len(name) - dropped, 0)] + index[begin:end]
            at = end + 1
        else:
            end = index.index(b"\0", begin)
            name = index[begin:end]
            at += (end - at + 8) // 8 * 8
        if flags & _LENGTH != min(len(name), _LENGTH):
            raise ValueError(name)
        if mode == MODE:
            yield name
