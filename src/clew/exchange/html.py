"""An account as one page of HTML that needs nothing else: no network, no font, no other file. Pure.

Everything a session says is text in it, never markup. Prose is read as a small part of Markdown:
headings, lists, tables, emphasis, code and fences, enough to read well and nothing that could run.
"""

import re
from collections.abc import Iterator

from clew.exchange.account import Account, Piece, Talk
from clew.exchange.html_page import SCRIPT, STYLE

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
# Of longer texts the page shows the beginning until it is opened.
FOLDED_LINES = 14
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def html(account: Account) -> str:
    return "".join(_page(account))


def _page(account: Account) -> Iterator[str]:
    title = escaped(" ".join(account.title.split()))
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head><body>\n<header><h1>{title}</h1><p>"
    )
    facts = (
        account.cwd,
        account.branch,
        account.created_at[:16].replace("T", " "),
        *account.models,
    )
    yield " · ".join(escaped(fact) for fact in facts if fact)
    yield (
        f'</p><p class="id">{escaped(account.session_id)}</p></header>\n'
        '<nav><input id="find" type="search" placeholder="Search (Enter: next, Shift+Enter: '
        'previous)" aria-label="Search"><span id="count"></span>'
        '<label><input type="checkbox" id="calls" checked> calls</label>'
        '<label><input type="checkbox" id="thoughts"> thinking and context</label></nav>\n'
        '<div class="columns"><aside><ol>'
    )
    yield from _contents(account)
    yield "</ol></aside><main>\n"
    for talk in account.talks:
        yield from _talk(talk)
    yield f"</main></div><script>{SCRIPT}</script></body></html>\n"


def _contents(account: Account) -> Iterator[str]:
    for talk in account.talks:
        if talk.agent:
            yield f'<li class="agent"><a href="#agent-{escaped(talk.agent)}">{escaped(talk.title[:60])}</a></li>'
            continue
        for number, piece in enumerate(talk.pieces):
            if piece.voice == "person" and piece.text.strip():
                short = escaped(" ".join(piece.text.split())[:80])
                yield f'<li><a href="#p{number}">{short}</a></li>'


def _talk(talk: Talk) -> Iterator[str]:
    agent = escaped(talk.agent)
    if agent:
        yield (
            f'<section class="subagent" id="agent-{agent}"><h2>Subagent: '
            f"{escaped(talk.title)}</h2>\n"
        )
    for number, piece in enumerate(talk.pieces):
        place = "" if agent else f' id="p{number}"'
        yield from _piece(piece, place)
    if agent:
        yield "</section>\n"


def _piece(piece: Piece, place: str) -> Iterator[str]:
    when = escaped(piece.timestamp[:19].replace("T", " "))
    title = f' title="{when}"' if when else ""
    if piece.voice in ("person", "model"):
        yield f'<article class="{piece.voice}"{place}{title}>{prose(piece.text)}</article>\n'
    elif piece.voice == "image":
        yield _image(piece)
    elif piece.voice == "call":
        shown = changed(block(piece.text)) if piece.name == "Edit" else block(piece.text)
        yield f'<div class="call"{place}{title}><b>{escaped(piece.name)}</b>{shown}</div>\n'
    elif piece.voice == "result":
        bad = " error" if piece.is_error else ""
        yield f'<div class="result{bad}"{title}>{block(piece.text)}</div>\n'
    else:
        label = escaped(piece.name or piece.voice)
        yield (
            f'<details class="aside"{title}><summary>{label}</summary>{block(piece.text)}</details>\n'
        )


def _image(piece: Piece) -> str:
    if piece.media in IMAGES and re.fullmatch(r"[A-Za-z0-9+/=\s]+", piece.data):
        return f'<img alt="" src="data:{piece.media};base64,{piece.data}">\n'
    return f'<p class="file">{escaped(piece.text)}</p>\n'


def block(text: str) -> str:
    """Plain text; what is long is folded."""
    text = text.rstrip("\n")
    if text.count("\n") < FOLDED_LINES and len(text) < 4000:
        return f"<pre>{escaped(text)}</pre>" if text else ""
    return f'<pre class="long">{escaped(text)}</pre>'


_CHANGED = re.compile(r"^([+-])(.*?)(?=\n|</pre>)", re.M)


def changed(shown: str) -> str:
    """A block in which lines that go and lines that come differ to the eye."""
    tags = {"+": "ins", "-": "del"}
    return _CHANGED.sub(lambda line: f"<{tags[line[1]]}>{line[0]}</{tags[line[1]]}>", shown)


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n`]*$")
_HEADING = re.compile(r"^(#{1,6}) +(.*)$")
_LIST = re.compile(r"^ *(?:[-*+]|\d+[.)]) +(.*)$")
_INLINE = re.compile(
    r"(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*])\*(?![\s*])([^*\n]+?)(?<!\s)\*(?![\w*])", re.S
)
# The line between a table's head and its rows.
_RULE = re.compile(r"\|?(?: *+:?-++:? *+\|)+(?: *+:?-++:? *+)?")


def prose(text: str) -> str:
    """Paragraphs, lists, headings and code of a person's or a model's words."""
    out: list[str] = []
    paragraph: list[str] = []
    items: list[str] = []
    rows: list[str] = []
    code: list[str] | None = None
    fence = ""

    def close() -> None:
        if rows:
            out.append(f"<table>{''.join(rows)}</table>")
            rows.clear()
        if paragraph:
            out.append(f"<p>{_inline(chr(10).join(paragraph))}</p>")
            paragraph.clear()
        if items:
            out.append(f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>")
            items.clear()

    for line in text.split("\n"):
        if code is not None:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                out.append(f"<pre>{escaped(chr(10).join(code))}</pre>")
                code = None
            else:
                code.append(line)
        elif found := _FENCE.match(line):
            close()
            code, fence = [], found[1]
        elif len(paragraph) == 1 and _RULE.fullmatch(line.strip()) and "|" in paragraph[0]:
            rows.append(_row(paragraph.pop(), "th"))
        elif rows and "|" in line:
            rows.append(_row(line, "td"))
        elif heading := _HEADING.match(line):
            close()
            out.append(f"<h3>{_inline(heading[2])}</h3>")
        elif item := _LIST.match(line):
            if not items:
                close()
            items.append(item[1])
        elif not line.strip():
            close()
        elif items:
            items[-1] += "\n" + line.strip()
        else:
            if rows:
                close()
            paragraph.append(line)
    close()
    if code is not None:
        out.append(f"<pre>{escaped(chr(10).join(code))}</pre>")
    return "".join(out)


def _row(line: str, tag: str) -> str:
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return f"<tr>{''.join(f'<{tag}>{_inline(cell.strip())}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    parts: list[str] = []
    at = 0
    for found in _INLINE.finditer(text):
        parts.append(escaped(text[at : found.start()]))
        tag, words = next(
            (tag, words)
            for tag, words in (("code", found[2]), ("strong", found[3]), ("em", found[4]))
            if words is not None
        )
        parts.append(f"<{tag}>{escaped(words.strip())}</{tag}>")
        at = found.end()
    return "".join([*parts, escaped(text[at:])]).replace("\n", "<br>")
