"""The table of events: complete, and with an example for each."""

import pytest

from clew.agent.hooks.events import BY_NAME, EVENTS, find_nearest_event, subject_of

# Every event of the published contract.
PUBLISHED = [
    "SessionStart",
    "Setup",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "MessageDisplay",
    "SubagentStart",
    "SubagentStop",
    "TaskCreated",
    "TaskCompleted",
    "Stop",
    "StopFailure",
    "TeammateIdle",
    "InstructionsLoaded",
    "ConfigChange",
    "CwdChanged",
    "DirectoryAdded",
    "FileChanged",
    "WorktreeCreate",
    "WorktreeRemove",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "Elicitation",
    "ElicitationResult",
    "SessionEnd",
]


def test_every_published_event_has_a_row_and_no_other() -> None:
    assert sorted(BY_NAME) == sorted(PUBLISHED)
    assert len(BY_NAME) == len(EVENTS) == 33


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.name)
def test_the_example_has_the_field_that_matchers_see(event: object) -> None:
    row = next(e for e in EVENTS if e is event)
    subject = subject_of(row, row.example)
    assert (subject is None) is (not row.subject)
    assert subject != ""


def test_a_misspelled_event_is_known() -> None:
    assert find_nearest_event("preToolUse") == "PreToolUse"
    assert find_nearest_event("zzz") is None
