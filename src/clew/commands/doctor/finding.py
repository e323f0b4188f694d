"""The findings of `clew doctor`: one line for each fact, and a remedy for each fault. Pure."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

State: TypeAlias = Literal["fine", "note", "fault"]
MARKS: dict[State, str] = {"fine": "ok", "note": "--", "fault": "!!"}


class DoctorFinding(Struct, frozen=True, kw_only=True):
    """One fact that was checked. A fault has a remedy."""

    subject: str
    state: State
    words: str
    remedy: str = ""


def make_fine(subject: str, words: str) -> DoctorFinding:
    return DoctorFinding(subject=subject, state="fine", words=words)


def note(subject: str, words: str, remedy: str = "") -> DoctorFinding:
    return DoctorFinding(subject=subject, state="note", words=words, remedy=remedy)


def make_fault(subject: str, words: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(subject=subject, state="fault", words=words, remedy=remedy)


def count_faults(findings: Iterable[DoctorFinding]) -> int:
    return sum(finding.state == "fault" for finding in findings)


def format_findings(findings: Iterable[DoctorFinding]) -> str:
    """Format the findings as text, grouped by subject in order."""
    lines: list[str] = []
    last = ""
    for finding in findings:
        if finding.subject != last:
            last = finding.subject
            lines.append(last)
        lines.append(f"  {MARKS[finding.state]} {finding.words}")
        if finding.remedy:
            lines.append(f"     {finding.remedy}")
    return "\n".join(lines)
