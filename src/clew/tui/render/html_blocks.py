"""Where a block of HTML begins inside Markdown, and what ends it: CommonMark's seven kinds. Pure."""

import re

from msgspec import Struct

_HTML_NAMES = (
    "address article aside base basefont blockquote body caption center col colgroup dd details dialog"
    " dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header"
    " hr html iframe legend li link main menu menuitem nav noframes ol optgroup option p param search"
    " section summary table tbody td tfoot th thead title tr track ul"
).replace(" ", "|")
_ATTRIBUTE = r"""\s+[A-Za-z_:][\w:.-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?"""
# How a block of HTML begins and, where that is not an empty line, what ends it.
_HTML = (
    (re.compile(r"<(?:script|pre|style|textarea)(?=\s|>|\Z)", re.I),
     re.compile(r"</(?:script|pre|style|textarea)>", re.I)),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(rf"</?(?:{_HTML_NAMES})(?=\s|/?>|\Z)", re.I), None),
)  # fmt: skip
_HTML_ALONE = re.compile(
    rf"(?:<[A-Za-z][A-Za-z0-9-]*(?:{_ATTRIBUTE})*\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*\Z"
)


class Html(Struct, frozen=True):
    """HTML that begins here; an empty line ends it where nothing else does."""

    until: re.Pattern[str] | None


def html_begins(words: str, *, may_be_any: bool) -> Html | None:
    for begins, until in _HTML:
        if begins.match(words):
            return Html(until)
    return Html(None) if may_be_any and _HTML_ALONE.match(words) else None
