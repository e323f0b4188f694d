"""The findings of `clew doctor`: one line for each fact, and a remedy for each fault.

Does no I/O.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.messages.text import format_count

State: TypeAlias = Literal["fine", "note", "fault"]
STYLES: dict[State, str] = {"fine": "good", "note": "warning", "fault": "bad"}
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


def format_plain(findings: Iterable[DoctorFinding]) -> str:
    """Return the findings as text without styles."""
    lines = format_findings(findings)
    return "\n".join("".join(p if isinstance(p, str) else p[1] for p in line) for line in lines)


def format_findings(
    findings: Iterable[DoctorFinding],
) -> Iterator[list[str | tuple[str, str]]]:
    """Yield the lines for the findings, grouped by subject in order, and a summary.

    A line consists of strings, and of pairs of a style and a string.
    """
    counts: Counter[State] = Counter()
    last = ""
    for finding in findings:
        counts[finding.state] += 1
        if finding.subject != last:
            last = finding.subject
            yield [("strong", last)]
        yield ["  ", (STYLES[finding.state], MARKS[finding.state]), f" {finding.words}"]
        if finding.remedy:
            yield [f"     {finding.remedy}"]
    faults = format_count(counts["fault"], "problem") if counts["fault"] else "no problems"
    notes = f", {format_count(counts['note'], 'note')}" if counts["note"] else ""
    yield [("bad" if counts["fault"] else "good", f"{faults}{notes}")]
