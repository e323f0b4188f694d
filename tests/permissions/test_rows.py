"""Findings as they are shown: one row for each command."""

import pytest

from clew.permissions.decision import NO_RULE, describe_reason, merge_by_command
from tests.permissions.conftest import World


def rows(world: World, line: str) -> list[str]:
    findings = world.decide("Bash", {"command": line}).findings
    return [f"{f.verdict} {f.subject}: {f.reason}" for f in merge_by_command(findings)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rm -rf build", ["ask rm -rf build: changes files"]),
        ("sed -i s/a/b/ x y", ["ask sed -i s/a/b/ x y: changes files"]),
        ("cat a.py", ["allow cat a.py: read-only"]),
        ("ls && make", ["allow ls: read-only", f"ask make: {NO_RULE}"]),
        (
            "mv a ../b",
            ["ask mv a ../b: changes files: a; changes files outside the workspace: ../b"],
        ),
        ("mv a b c d ../e", ["ask mv a b c d ../e: changes files: a, b, c and 1 more; "]),
        ("dd if=/a of=/etc/b", ["ask dd if=/a of=/etc/b: is a system file: of=/etc/b; outside"]),
        ("make > log", [f"ask make: {NO_RULE}", "ask > log: changes files"]),
        ("cat a > b", ["allow cat a: read-only", "ask > b: changes files"]),
    ],
)
def test_each_command_has_one_row_with_the_reasons_that_decide(
    world: World, line: str, expected: list[str]
) -> None:
    found = rows(world, line)
    assert len(found) == len(expected)
    assert all(row.startswith(words) for row, words in zip(found, expected, strict=True)), found


def test_the_reason_of_a_decision_names_the_command(world: World) -> None:
    denied = world.decide("Bash", {"command": "cat a .env"}, world.rules(deny=["Read(.env)"]))
    assert describe_reason(denied) == "cat a .env: denied by Read(.env): .env"
    edited = world.decide("Edit", {"file_path": "a.py"})
    assert describe_reason(edited) == "a.py: edits a file"
