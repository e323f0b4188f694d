"""What an examination says: one line of what is, and for a fault what to do. Pure."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

State: TypeAlias = Literal["fine", "note", "fault"]
MARKS: dict[State, str] = {"fine": "ok", "note": "--", "fault": "!!"}


class DoctorFinding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at. A fault names its remedy."""

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
    """The findings for people, by subject in the order they came."""
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
