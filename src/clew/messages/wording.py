"""Texts that clew puts into a conversation: fixed ones that other programs match, and our own."""

from __future__ import annotations

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


def rejected_by_user(feedback: str = "") -> str:
    """What the model reads when the person said no to a call."""
    said = feedback.strip()
    return f"{REFUSED}{REFUSED_SAYING}{said}" if said else f"{REFUSED}{WAIT}"


def for_person(words: str) -> str:
    """What the model was told of a call that did not run, without what only tells it how to go on."""
    if words.startswith(REFUSED):
        said = words.removeprefix(REFUSED).removeprefix(WAIT)
        why = said.removeprefix(REFUSED_SAYING)
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


def rejected_by_reviewer(reason: str) -> str:
    """What the model reads when the automatic reviewer said no."""
    return (
        f"The automatic review refused this call: {reason.strip().rstrip('.') or 'no reason given'}. "
        f"It did not run. {OTHER_WORK} {AFTER_DENIAL}"
    )


def tagged(tag: str, text: str) -> str:
    """`text` in one of `TAGS`."""
    return f"<{tag}>{text}</{tag}>"
