"""The corpus tells the truth: bash runs its lines in a sandbox."""

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.fuzz import grammar
from tests.fuzz.box import Box
from tests.fuzz.hunt import harm
from tests.permissions.usual import PROJECT
from tests.system.sandbox.walls import can

# Lines that name these say nothing where they are not installed.
OPTIONAL = re.compile(r"\b(?:rg|fd|fdfind|gawk|jq|tree|xxd|strings|file|column|hexdump)\b")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box | None]:
    if not can("bubblewrap"):
        yield None
        return
    made = Box(tmp_path_factory.mktemp("truth") / "box")
    yield made
    made.close()


def installed(line: str) -> bool:
    return all(shutil.which(name) for name in OPTIONAL.findall(line))


@pytest.mark.e2e
def test_a_usual_look_does_no_harm(box: Box | None) -> None:
    if box is None:
        return
    lines = [line for line in grammar.read_corpus("usual.txt") if not STARTS.search(line)]
    here = [line.replace(PROJECT, str(box.world.cwd)) for line in lines]
    seen = box.run(here, may_open=True)
    harmful = [
        (line, harm(one, line, "no rules"))
        for line, one in zip(here, seen, strict=True)
        if harm(one, line, "no rules")
    ]
    assert harmful == []


# Programs of the usual looks that the sandbox has only as stubs: they ask or read the network.
STARTS = re.compile(
    r"\b(?:lsof|netstat|ss|printenv|pip|less|more|go version|cargo|rustc|npm -v|node -v)\b"
)


@pytest.mark.laws
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["readings.txt", "tables.txt", "tables_writing.txt", "denied.txt"])
def test_a_line_that_must_not_be_allowed_does_harm(box: Box | None, name: str) -> None:
    if box is None:
        return
    lines = [line for line in grammar.read_corpus(name) if installed(line)]
    doubted = [
        line
        for start in range(0, len(lines), 8)
        for line, one in zip(
            lines[start : start + 8], box.run(lines[start : start + 8]), strict=True
        )
        if one.harmless
    ]
    # What outlives its line is seen better alone.
    assert [line for line in doubted if all(box.run([line])[0].harmless for _ in range(3))] == []
