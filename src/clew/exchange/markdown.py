"""An account as Markdown. Pure."""

import re
from collections.abc import Iterator

from clew.exchange.account import Account, Piece, Talk

_HEADS = {"person": "## Prompt", "model": "### Answer"}


def markdown(account: Account) -> str:
    return "\n".join(_lines(account)).rstrip() + "\n"


def _lines(account: Account) -> Iterator[str]:
    yield f"# {_on_one_line(account.title)}"
    yield ""
    for name, value in (
        ("session", account.session_id),
        ("folder", account.cwd),
        ("branch", account.branch),
        ("begun", account.created_at),
        ("models", ", ".join(account.models)),
    ):
        if value:
            yield f"- {name}: {_on_one_line(value)}"
    yield ""
    for talk in account.talks:
        if talk.agent:
            yield f"# Subagent {talk.agent}: {_on_one_line(talk.title)}"
            yield ""
        yield from _talk(talk)


def _talk(talk: Talk) -> Iterator[str]:
    for piece in talk.pieces:
        yield from _piece(piece)
        yield ""


def _piece(piece: Piece) -> Iterator[str]:
    match piece.voice:
        case "person" | "model":
            yield f"{_HEADS[piece.voice]}{_when(piece)}"
            yield ""
            yield piece.text
        case "call":
            yield f"**{piece.name}**"
            yield from fenced(piece.text)
        case "result":
            label = "Error" if piece.is_error else "Result"
            yield f"{label}:"
            yield from fenced(piece.text)
        case "image":
            yield f"[{_on_one_line(piece.text)}]"
        case _:
            label = piece.name or piece.voice
            yield f"<details><summary>{_on_one_line(label)}</summary>"
            yield ""
            yield from fenced(piece.text)
            yield ""
            yield "</details>"


def _when(piece: Piece) -> str:
    return f" · {piece.timestamp[:16].replace('T', ' ')}" if piece.timestamp else ""


def fenced(text: str) -> Iterator[str]:
    """A block that ends where it says, whatever backticks are in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield text.rstrip("\n")
    yield fence


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")
