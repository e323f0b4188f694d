"""Texts that clew puts into a conversation: fixed ones that other programs match, and our own."""

from __future__ import annotations

import re
from functools import cache

from clew.core.regex import lazy_pattern

# How many of something, and how much, as a person says it. Pure.


def format_count(number: int, singular: str, several: str = "") -> str:
    """`1 line`, `2 lines`, `1,000 lines`; `several` where an s behind the word does not make it many."""
    return f"{number:,} {singular if number == 1 else several or f'{singular}s'}"


def format_size(size_bytes: float) -> str:
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:.1f} GB"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"


# Characters that no page shows and that rule whoever shows them: a terminal, a line, its direction.


# Control characters, directions of writing, separators of lines that are none, tags that nobody sees, marks
# of byte order. Joiners and selectors that emoji and scripts need are none of them.
UNSEEN = (
    "\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
# Signs without a width, with which two different words look the same; and joiners that join nothing.
WITHOUT_WIDTH = "\xad\u034f\u115f\u1160\u180e\u200b\u2060-\u2064\u3164\uffa0"
LONE_JOINER = "(?<![^\x00-\x7f])[\u200c\u200d]"
# A joiner behind one of them joins nothing either once its escape stands there.
_IN_JSON = lazy_pattern(f"(?:[\x7f{UNSEEN}{WITHOUT_WIDTH}]|{LONE_JOINER})[\u200c\u200d]*")


def unescape_line(line: bytes) -> bytes:
    """A line of JSON with the same meaning, whose escapes stand for them."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return _IN_JSON.sub(_escape, line.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    halves = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


# Wire constants: exporters, readers and models match these byte for byte.
NO_CONTENT = "(no content)"
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_FOR_TOOL_USE = "[Request interrupted by user for tool use]"
RESULT_MISSING = "[Tool result missing due to internal error]"
NO_RESPONSE_REQUESTED = "No response requested."
SYNTHETIC_MODEL = "<synthetic>"

# Tags in which transcripts wrap what is not plain talk.
TAGS = (
    "system-reminder", "command-name", "command-message", "command-args", "local-command-stdout",
    "local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr",
    "task-notification", "tool_use_error", "persisted-output", "pasted_content", "summary",
)  # fmt: skip

# How programs of before the marking field began what they said in the user's name.
SYNTHETIC_TEXTS = (
    INTERRUPTED,
    INTERRUPTED_FOR_TOOL_USE,
    NO_RESPONSE_REQUESTED,
    "The user doesn't want to take this action right now.",
    "The user doesn't want to proceed with this tool use.",
)

CANCELLED = (
    "Cancelled before it began: the user stopped the turn. Nothing was changed by this call. "
    "Wait for the user to say how to go on."
)
INTERRUPTED_WHILE_RUNNING = (
    "The user stopped this call while it ran. What it had done by then is not undone and not known "
    "here; look before you rely on it."
)
ENDED_WHILE_RUNNING = (
    "clew itself ended before this call's result was kept. What the call had done by then is not "
    "undone and not known here; look before you rely on it."
)
AFTER_DENIAL = (
    "You may reach the same end by another tool when that is its ordinary use, as one reads a file "
    "with head where cat is not allowed. Do not get around the denial: no disguised commands, no "
    "scripts that do what was refused, no tests or hooks used to run something else. If the refused "
    "step is essential, stop and tell the user what you wanted to do and why."
)
OTHER_WORK = "Work that does not depend on this call may go on."


AFTER_MAX_TOKENS = (
    "Your last answer was cut off at its length limit. Go on exactly where it broke off, without "
    "greeting or recap, and in smaller steps from here."
)
CONTINUED = (
    "This session goes on from an earlier conversation that no longer fitted. What follows is its "
    "summary; take it as known and go on with the work it describes."
)


REFUSED = "The user refused this call; it did not run and nothing was changed."
REFUSED_SAYING = " The user said: "
WAIT = " Stop here and wait for the user to say how to go on."
REPORT = " Name the refused step in your report."


def describe_user_rejection(feedback: str = "") -> str:
    """What the model reads when the person said no to a call."""
    reason = feedback.strip()
    return f"{REFUSED}{REFUSED_SAYING}{reason}" if reason else f"{REFUSED}{WAIT}"


def for_person(words: str) -> str:
    """What the model was told of a call that did not run, without what only tells it how to go on."""
    if words.startswith(REFUSED):
        text = words.removeprefix(REFUSED).removeprefix(WAIT)
        why = text.removeprefix(REFUSED_SAYING)
        return f"refused; it did not run: {why}" if why else "refused; it did not run"
    for advice in (OTHER_WORK, AFTER_DENIAL, REPORT):
        words = words.replace(advice.strip(), "")
    return " ".join(words.split(" ")).rstrip()


def rejected_in_subagent() -> str:
    """What a subagent reads: there is nobody to ask, so the way on is a report."""
    return (
        "This call is not permitted here and did not run; there is no user in this conversation "
        f"to ask. {OTHER_WORK} {AFTER_DENIAL}{REPORT}"
    )


def describe_reviewer_rejection(reason: str) -> str:
    """What the model reads when the automatic reviewer said no."""
    return (
        f"The automatic review refused this call: {reason.strip().rstrip('.') or 'no reason given'}. "
        f"It did not run. {OTHER_WORK} {AFTER_DENIAL}"
    )


def wrap_in_tag(tag: str, text: str) -> str:
    """`text` in one of `TAGS`."""
    return f"<{tag}>{text}</{tag}>"


# Tags of clew's own in text that is not clew's: escaped on the way into a request, and back.


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


_OUTPUT = lazy_pattern(
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

    def without(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2][1:]}{match[3]}"

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
    match = _OUTPUT.fullmatch(text)
    if match is None:
        return text
    spans = [match.span(name) for name in ("out", "err", "said") if match[name] is not None]
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
