"""Tags of clew's own in text that is not clew's: escaped on the way into a request, and back.

A file, a page or a program may print `<system-reminder>`. In a request such a tag has a backslash after its
bracket (`<\\system-reminder>`), whoever wrote it and however it is spelled; the transcript and the file keep
their bytes. `unescape_tags(escape_tags(text)) == text` for every text.

Reminders that clew did write have a nonce in the request, which is random, told with the environment, and
recorded there. News of tasks needs none: what they hold cannot have a tag (`tasks.notice`).
"""

import re
from functools import cache

from clew.messages.wording import TAGS

# `summary` is an element of HTML, and clew reads it in an answer of the model alone.
ESCAPED = tuple(tag for tag in TAGS if tag != "summary")
_HEAD, _TAIL = "<system-reminder>", "</system-reminder>"
# Tags that a result of a tool may be wrapped in as a whole.
AROUND_RESULTS = ("tool_use_error", "persisted-output")
# What is printed in the user's name: each of these around the words of a program.
AROUND_OUTPUT = ("bash-stdout", "bash-stderr", "local-command-stdout", "local-command-stderr")

_BRACKETS = "<\uff1c\ufe64"
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"


@cache
def _pattern(between: str) -> re.Pattern[str]:
    """Tags by these names, with what a reader may overlook between their letters."""
    names = "|".join(
        between.join("[-_\\s]*" if char in "-_" else char for char in tag) for tag in ESCAPED
    )
    blank = f"[\\s/{_UNSEEN}]*+"
    return re.compile(f"([{_BRACKETS}])(\\\\*+)({blank}(?:{names})(?![A-Za-z0-9]))", re.IGNORECASE)


_OUTPUT = re.compile(
    "<bash-stdout>(?P<out>.*)</bash-stdout><bash-stderr>(?P<err>.*)</bash-stderr>"
    "|<(?P<tag>" + "|".join(AROUND_OUTPUT) + ")>(?P<said>.*)</(?P=tag)>",
    re.DOTALL,
)


def _tags(text: str) -> re.Pattern[str]:
    return _pattern("" if text.isascii() else f"[{_UNSEEN}]*")


def escape_tags(text: str) -> str:
    """Return a text in which nothing is a tag of clew's; the same object where nothing was."""
    return _tags(text).sub(r"\1\2\\\3", text) if _may_hold(text) else text


def unescape_tags(text: str) -> str:
    """Return what `escape_tags` was given."""

    def without(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2][1:]}{found[3]}"

    return _tags(text).sub(without, text) if _may_hold(text) else text


def _may_hold(text: str) -> bool:
    return any(bracket in text for bracket in _BRACKETS)


def escape_result(text: str) -> str:
    """Return a tool's result with its look-alikes escaped, but for a tag around the whole."""
    for tag in AROUND_RESULTS:
        head, tail = f"<{tag}>", f"</{tag}>"
        if text.startswith(head) and text.endswith(tail):
            return f"{head}{escape_tags(text[len(head) : -len(tail)])}{tail}"
    return escape_tags(text)


def escape_output(text: str) -> str:
    """Return what a program printed in the user's name, with its look-alikes escaped."""
    found = _OUTPUT.fullmatch(text)
    if found is None:
        return text
    spans = [found.span(name) for name in ("out", "err", "said") if found[name] is not None]
    for begin, end in reversed(spans):
        text = text[:begin] + escape_tags(text[begin:end]) + text[end:]
    return text


def with_nonce(text: str, nonce: str) -> str:
    """Return a reminder of clew's with the nonce in its tag and look-alikes escaped within."""
    if not (nonce and text.startswith(_HEAD) and text.endswith(_TAIL)):
        return text
    return f'{_HEAD[:-1]} nonce="{nonce}">{escape_tags(text[len(_HEAD) : -len(_TAIL)])}{_TAIL}'


def unescape_like(text: str, before: str) -> str:
    """Return a new text for a place that held `before`, with the tags in it written as there.

    Who read that place saw its tags escaped, and may have copied them so.
    """
    has_tags = escape_tags(before) != before and unescape_tags(before) == before
    return unescape_tags(text) if has_tags else text
