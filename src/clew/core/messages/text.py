"""Text that clew adds to a conversation, some of which other programs match exactly."""

from __future__ import annotations

import re
from functools import cache

from clew.core.regex import lazy_pattern

# Formats counts and sizes for display.


def format_count(number: int, singular: str, several: str = "") -> str:
    """Format a count: `1 line`, `2 lines`, `1,000 lines`; `several` is an irregular plural."""
    return f"{number:,} {singular if number == 1 else several or f'{singular}s'}"


def format_size(size_bytes: float) -> str:
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:.1f} GB"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"


def format_duration(seconds: float) -> str:
    """Format a duration: `34s`, `1m05s`, `2h03m`."""
    total = int(seconds)
    if total < 60:
        return f"{total}s"
    minutes, rest = divmod(total, 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def format_tokens(number: int) -> str:
    """Format a number of tokens in at most five characters: `950`, `8.1k`, `200k`, `1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            digits = f"{number / size:.1f}" if number < 100 * size else f"{number / size:.0f}"
            return f"{digits.removesuffix('.0')}{unit}"
    return str(number)


# Invisible characters that can affect a terminal, a line or the text direction.


# Control characters, text direction marks, unusual line separators, tag characters and byte order
# marks. Joiners and variation selectors, which emoji and some scripts need, are not included.
UNSEEN = (
    "\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
# Zero-width characters, which make different words look the same, and joiners that join nothing.
WITHOUT_WIDTH = "\xad\u034f\u115f\u1160\u180e\u200b\u2060-\u2064\u3164\uffa0"
LONE_JOINER = "(?<![^\x00-\x7f])[\u200c\u200d]"
_JOINERS = "\u200c\u200d"


def replace_unprintable(text: str, *, kept: str = "", mark: str = "\ufffd") -> str:
    """Replace each character that is not printable, except those in `kept`.

    Joiners inside emoji and words stay, because the meaning would change without them.
    """
    if text.isprintable():
        return text
    pairs = zip(f"\0{text}", text, strict=False)
    return "".join(
        c if c.isprintable() or c in kept or (c in _JOINERS and before > "\x7f") else mark
        for before, c in pairs
    )


# A joiner after one of these joins nothing once that character is escaped, so it is escaped too.
_IN_JSON = lazy_pattern(f"(?:[\x7f{UNSEEN}{WITHOUT_WIDTH}]|{LONE_JOINER})[\u200c\u200d]*")


def unescape_line(line: bytes) -> bytes:
    """Return a line of JSON with its invisible characters written as escapes."""
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

# Tags that transcripts use around text that is not dialogue.
TAGS = (
    "system-reminder", "command-name", "command-message", "command-args", "local-command-stdout",
    "local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr",
    "task-notification", "tool_use_error", "persisted-output", "pasted_content", "summary",
)  # fmt: skip

# How messages written in the user's name began before a field marked them.
SYNTHETIC_TEXTS = (
    INTERRUPTED,
    INTERRUPTED_FOR_TOOL_USE,
    NO_RESPONSE_REQUESTED,
    "The user doesn't want to take this action right now.",
    "The user doesn't want to proceed with this tool use.",
)

CANCELLED = (
    "Cancelled before it started: the user interrupted the turn. This call changed nothing. "
    "Wait for the user to say how to continue."
)
INTERRUPTED_WHILE_RUNNING = (
    "The user interrupted this call while it ran. Anything it had already done remains in effect and "
    "is not known here. Check before you rely on it."
)
ENDED_WHILE_RUNNING = (
    "clew exited before this call's result was saved. Anything the call had done remains in effect "
    "and is not known here. Check before you rely on it."
)
AFTER_DENIAL = (
    "You may reach the same goal with another tool in its normal use, such as reading a file with "
    "head if cat is not allowed. Do not work around the denial: no disguised commands, no scripts "
    "that do what was denied, no tests or hooks used to run something else. If the denied step is "
    "essential, stop and tell the user what you wanted to do and why."
)
OTHER_WORK = "Work that does not depend on this call may continue."


AFTER_MAX_TOKENS = (
    "Your last response was cut off at its length limit. Continue exactly where it stopped, without "
    "greeting or recap, and in smaller steps from here."
)
CONTINUED = (
    "This session continues an earlier conversation that no longer fit the context window. Its summary "
    "follows. Treat it as known and continue the work it describes."
)


# The result of a call that needs approval where no user can be asked, before the reason.
NOBODY_TO_ASK = (
    "This call needs the user's approval, but no user can be asked here, so it did not run. "
    "Continue with calls that need no approval, or describe what you would have done."
)
REASON_FOR_ASKING = " (Reason for asking: {why}.)"
REFUSED = "The user denied this call. It did not run and nothing changed."
REFUSED_SAYING = " The user said: "
WAIT = " Stop here and wait for the user to say how to continue."
REPORT = " Name the denied step in your report."


def describe_user_rejection(feedback: str = "") -> str:
    """Return the tool result that tells the model that the user denied a call."""
    reason = feedback.strip()
    return f"{REFUSED}{REFUSED_SAYING}{reason}" if reason else f"{REFUSED}{WAIT}"


# Results of calls without an outcome, as the user sees them.
_WITHOUT_OUTCOME = {
    CANCELLED: "Cancelled before it started",
    INTERRUPTED_WHILE_RUNNING: "Interrupted",
    ENDED_WHILE_RUNNING: "clew exited before the result was saved",
}


def describe_interruption(words: str) -> str:
    """Return the result of an interrupted call as shown to the user; empty for other results."""
    return _WITHOUT_OUTCOME.get(words, "")


def for_person(words: str) -> str:
    """Return a denial as shown to the user, without the instructions for the model."""
    if words.startswith(NOBODY_TO_ASK):
        before, after = REASON_FOR_ASKING.split("{why}")
        why = words.removeprefix(NOBODY_TO_ASK).removeprefix(before).removesuffix(after)
        return f"Not run, because it needed approval: {why}"
    if words.startswith(REFUSED):
        text = words.removeprefix(REFUSED).removeprefix(WAIT)
        why = text.removeprefix(REFUSED_SAYING)
        return f"Denied: {why}" if why else "Denied"
    for advice in (OTHER_WORK, AFTER_DENIAL, REPORT):
        words = words.replace(advice.strip(), "")
    return " ".join(words.split(" ")).rstrip()


def describe_subagent_rejection() -> str:
    """Return the tool result for a call denied in a subagent, which has no user to ask."""
    return (
        "This call is not permitted here and did not run. There is no user in this conversation "
        f"to ask. {OTHER_WORK} {AFTER_DENIAL}{REPORT}"
    )


def describe_reviewer_rejection(reason: str) -> str:
    """Return the tool result that tells the model that the automatic reviewer denied a call."""
    return (
        f"The automatic review denied this call: {reason.strip().rstrip('.') or 'no reason given'}. "
        f"It did not run. {OTHER_WORK} {AFTER_DENIAL}"
    )


def wrap_in_tag(tag: str, text: str) -> str:
    """Return `text` wrapped in one of `TAGS`."""
    return f"<{tag}>{text}</{tag}>"


# Escapes clew's own tags in external text that is part of a request, and unescapes them.


# `summary` is also an HTML element, and clew parses it only in model responses.
ESCAPED = tuple(tag for tag in TAGS if tag != "summary")
_HEAD, _TAIL = "<system-reminder>", "</system-reminder>"
# Tags that may enclose a complete tool result.
AROUND_RESULTS = ("tool_use_error", "persisted-output")
# Tags around program output that is sent in the user's name.
AROUND_OUTPUT = ("bash-stdout", "bash-stderr", "local-command-stdout", "local-command-stderr")

_BRACKETS = "<\uff1c\ufe64"
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"


@cache
def _pattern(between: str) -> re.Pattern[str]:
    """Return a pattern that matches clew's tags, with `between` allowed between their letters."""
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
    """Return the text with clew's tags escaped; the same object if it contains none."""
    return _tags(text).sub(r"\1\2\\\3", text) if _may_hold(text) else text


def unescape_tags(text: str) -> str:
    """Reverse `escape_tags`."""

    def without(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2][1:]}{match[3]}"

    return _tags(text).sub(without, text) if _may_hold(text) else text


def _may_hold(text: str) -> bool:
    return any(bracket in text for bracket in _BRACKETS)


def escape_result(text: str) -> str:
    """Escape clew's tags in a tool result, except a tag around the entire result."""
    for tag in AROUND_RESULTS:
        head, tail = f"<{tag}>", f"</{tag}>"
        if text.startswith(head) and text.endswith(tail):
            return f"{head}{escape_tags(text[len(head) : -len(tail)])}{tail}"
    return escape_tags(text)


def escape_output(text: str) -> str:
    """Escape clew's tags in program output that is sent in the user's name."""
    match = _OUTPUT.fullmatch(text)
    if match is None:
        return text
    spans = [match.span(name) for name in ("out", "err", "said") if match[name] is not None]
    for begin, end in reversed(spans):
        text = text[:begin] + escape_tags(text[begin:end]) + text[end:]
    return text


def with_nonce(text: str, nonce: str) -> str:
    """Return a reminder with the nonce in its tag and with clew's tags escaped inside."""
    if not (nonce and text.startswith(_HEAD) and text.endswith(_TAIL)):
        return text
    return f'{_HEAD[:-1]} nonce="{nonce}">{escape_tags(text[len(_HEAD) : -len(_TAIL)])}{_TAIL}'


def unescape_like(text: str, before: str) -> str:
    """Unescape the tags in `text` if `before`, the text that it replaces, contains unescaped tags.

    The model saw the tags in `before` escaped and may have copied them that way.
    """
    has_tags = escape_tags(before) != before and unescape_tags(before) == before
    return unescape_tags(text) if has_tags else text


# Notifications of background tasks, in the format that transcript readers know.

IN_BACKGROUND = "Running in the background as {}"
HAS_WORDS = "has something to say"
_SUMMARY = lazy_pattern("<summary>(.*?)</summary>", re.S)
_EVENT = lazy_pattern("<event>(.*?)</event>", re.S)


def describe_notification(text: str) -> str:
    """Return the part of a task notification for the user: its summary, or the task's message."""
    match = _SUMMARY.search(text)
    words = match[1] if match else text
    event_match = _EVENT.search(text) if words.endswith(f" {HAS_WORDS}") else None
    if event_match is not None:
        words = f"{words.removesuffix(f' {HAS_WORDS}')}: {event_match[1]}"
    return words.replace("&lt;", "<").replace("&amp;", "&")
