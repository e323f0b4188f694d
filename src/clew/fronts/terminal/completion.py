"""Completion of the word being typed: files after `@`, commands after `/`, command arguments.

This module keeps the suggestions and the selection. The caller looks up files and passes the
results to `found`; results that arrive after the word has changed are dropped.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.fronts.render.rows import Line, Span, clip_spans, format_row
from clew.fronts.render.theme import Theme

Kind: TypeAlias = Literal["file", "command", "argument"]
SHOWN = 8
MOST = 40
FILE = re.compile(r"(?:(?<=[\s(\[{\"'`,;])|\A)@(\"[^\"\n]*|[^\s\"'`<>|]*)\Z")
COMMAND = re.compile(r"/([\w:.-]*)\Z")
ARGUMENT = re.compile(r"/([\w:.-]+)[ ]+((?:\S+[ ]+)*)(\S*)\Z")


class CompletionOffer(Struct, frozen=True, kw_only=True):
    """A suggestion, which replaces the word when it is accepted.

    `is_whole` is true if nothing has to be typed after the suggestion.
    """

    text: str
    label: str
    hint: str = ""
    is_whole: bool = True


class CompletionWord(Struct, frozen=True, kw_only=True):
    """The completable word before the cursor, and the position where it starts."""

    kind: Kind
    word: str
    begin: int
    command: str = ""
    # The earlier arguments of the command.
    before: tuple[str, ...] = ()


def asked(before: str) -> CompletionWord | None:
    """Return the word to complete at the end of `before`, the text before the cursor, if any."""
    if (match := FILE.search(before)) is not None:
        return CompletionWord(kind="file", word=match[1].lstrip('"'), begin=match.start())
    if (match := COMMAND.match(before)) is not None:
        return CompletionWord(kind="command", word=match[1], begin=0)
    if (match := ARGUMENT.match(before)) is not None:
        words = tuple(match[2].split())
        place = match.start(3)
        return CompletionWord(
            kind="argument", word=match[3], begin=place, command=match[1], before=words
        )
    return None


def file_offer(name: str) -> CompletionOffer:
    spaced = any(character.isspace() or character in "\"'`<>|" for character in name)
    quoted = f'@"{name}"' if spaced and '"' not in name else f"@{name}"
    return CompletionOffer(text=quoted, label=name, is_whole=not name.endswith("/"))


def match_names(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that match a typed word, best matches first.

    Names that start with the word come first, then names that contain it, then names that contain
    its letters in the same order. Equally good matches keep their order.
    """
    word = word.lower()
    letters = re.compile(".*?".join(map(re.escape, word)))

    def kind(name: str) -> int:
        small = name.lower()
        if small.startswith(word):
            return 0
        return 1 if word in small else 2 if letters.search(small) else 3

    placed = sorted(((kind(name), name) for name in names), key=lambda pair: pair[0])
    return [name for place, name in placed if place < 3]


async def nothing(_: CompletionWord) -> Sequence[str]:
    return ()


class CompletionSource(Struct, frozen=True, kw_only=True):
    """The source of a session's completions: commands and their arguments.

    `commands` returns the name, argument hint and description of each command. `arguments` returns
    the arguments of a command, each with a description. `seek` asks MCP servers for completions of
    a word, which may take time.
    """

    commands: Callable[[], Sequence[tuple[str, str, str]]] = tuple
    # Aliases of commands, and the commands they stand for.
    aliases: Callable[[], Mapping[str, str]] = dict
    arguments: Callable[[str], Sequence[tuple[str, str]]] = lambda _: ()
    seek: Callable[[CompletionWord], Awaitable[Sequence[str]]] = nothing


class Completion:
    """Completes the word at the cursor: takes the text before the cursor and offers suggestions."""

    def __init__(self) -> None:
        self.known = CompletionSource()
        self._asked: CompletionWord | None = None
        self._dismissed: str | None = None
        # The command whose arguments are typed, with their syntax.
        self._usage = ""
        self.offers: list[CompletionOffer] = []
        # Whether the lookup found more than the suggestions that are kept.
        self._is_cut = False
        self._at = 0
        # Whether the user selected a suggestion; otherwise the first is what Tab would accept.
        self.is_chosen = False

    @property
    def is_asked(self) -> bool:
        """True if the word before the cursor can be completed."""
        return self._asked is not None

    @property
    def is_open(self) -> bool:
        return bool(self.offers)

    def update(self, before: str) -> CompletionWord | None:
        """Set the text before the cursor; return the word that the caller must look up, if any."""
        now = asked(before)
        if now == self._asked:
            return None
        self._asked = now
        # A selection among the suggestions for an earlier word does not apply to this one.
        self.is_chosen = False
        if now is None or before == self._dismissed:
            self._hide()
            return None
        self._dismissed = None
        self._usage = self._grammar(now.command) if now.kind == "argument" else ""
        if now.kind == "file":
            return now
        self._show(
            self._command_offers(now.word) if now.kind == "command" else self._argument_offers(now)
        )
        return now if now.kind == "argument" and not self.offers else None

    def found(self, asked_for: CompletionWord, names: Sequence[str]) -> None:
        """Set the results of a lookup, which replace earlier results.

        If there are more than `MOST` results, the rest are dropped and their number is unknown.
        """
        if asked_for != self._asked or self.is_chosen:
            return
        if asked_for.kind == "argument":
            self._show([CompletionOffer(text=name, label=name) for name in names[:MOST]])
        else:
            self._show([file_offer(name) for name in names[:MOST]])
        self._is_cut = len(names) > MOST

    def close(self, before: str = "") -> None:
        """Hide the suggestions for the current text. Typing may bring them back."""
        self._dismissed = before or None
        self._hide()

    def forget(self) -> None:
        self._asked = None
        self._hide()

    def _hide(self) -> None:
        self._usage = ""
        self._show(())

    def move(self, steps: int) -> None:
        if self.offers:
            self._at = (self._at + steps) % len(self.offers)
            self.is_chosen = True

    def chosen(self) -> tuple[int, CompletionOffer] | None:
        """Return the start of the typed word and the suggestion that would replace it, if any."""
        if not self.offers or self._asked is None:
            return None
        return self._asked.begin, self.offers[self._at]

    @property
    def guessed(self) -> str:
        """The typed command name if the suggestion is only a guess, otherwise an empty string.

        A suggested command is a guess if its name does not start with the typed word and the word
        is not one of its aliases.
        """
        if self._asked is None or self._asked.kind != "command" or self.is_chosen:
            return ""
        word, name = self._asked.word, self.offers[self._at].text.strip().removeprefix("/")
        is_meant = name.startswith(word.lower()) or self.known.aliases().get(word) == name
        return "" if is_meant else word

    def _grammar(self, command: str) -> str:
        """Return a command with the syntax of its arguments; empty if the command takes none."""
        name = self.known.aliases().get(command, command)
        hints = {known: hint for known, hint, _ in self.known.commands()}
        return f"/{name} {hints[name]}" if hints.get(name) else ""

    def _command_offers(self, word: str) -> list[CompletionOffer]:
        commands = {name: (hint, words) for name, hint, words in self.known.commands()}
        names = match_names(word, commands)
        if (meant := self.known.aliases().get(word)) in commands:
            names = [meant, *(name for name in names if name != meant)]
        return [
            CompletionOffer(
                text=f"/{name} " if commands[name][0] else f"/{name}",
                label=f"/{name}",
                hint=commands[name][1],
                is_whole=not commands[name][0],
            )
            for name in names
        ]

    def _argument_offers(self, now: CompletionWord) -> list[CompletionOffer]:
        if now.before:
            return []
        word = now.word.lower()
        offers = [offer for offer in self.known.arguments(now.command) if word in offer[0].lower()]
        offers.sort(key=lambda offer: not offer[0].lower().startswith(word))
        return [CompletionOffer(text=value, label=value, hint=hint) for value, hint in offers]

    def _show(self, offers: Iterable[CompletionOffer]) -> None:
        self.offers = list(offers)
        self._is_cut = False
        self._at = 0
        self.is_chosen = False

    # -- drawing

    def lines(self, width: int, rows: int, theme: Theme) -> list[Line]:
        usage = format_row(clip_spans([Span(f"  {self._usage}", theme["quiet"])], width))
        above = [usage] if self._usage and rows > 0 else []
        row_count = min(SHOWN, rows - len(above))
        if not self.offers or row_count < 1:
            return above
        first = max(0, min(self._at - row_count // 2, len(self.offers) - row_count))
        part = self.offers[first : first + row_count]
        column = min(max(len(offer.label) for offer in part) + 2, max(width // 2, 20))
        lines = [self._row(offer, column, theme) for offer in part]
        rest = len(self.offers) - first - len(part)
        if lines and (rest > 0 or self._is_cut):
            words = f"{rest or ''}{'+' if rest and self._is_cut else ''} more".lstrip()
            count = f"  ({words})"
            last = clip_spans(lines[-1], max(2, width - len(count)))
            lines[-1] = [*last, Span(count, theme["quiet"])]
        return [*above, *(format_row(clip_spans(row, width)) for row in lines)]

    def _row(self, offer: CompletionOffer, column: int, theme: Theme) -> list[Span]:
        # Enter does not accept a guess, so the guess is not marked.
        is_at = offer is self.offers[self._at] and not self.guessed
        style = theme["marker"] if is_at else ""
        mark = "> " if is_at else "  "
        shown_label = offer.label if len(offer.label) < column else f"{offer.label[: column - 2]}… "
        label = Span(f"{mark}{shown_label:<{column}}", style)
        return [label, Span(offer.hint, theme["quiet"])] if offer.hint else [label]
