"""The fuzzer itself: it sees harm of every kind, reads as bash does, and is the same for a seed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import grammar
from tests.fuzz.box import Box
from tests.fuzz.hunt import harm, shell_quoted
from tests.fuzz.reading import Comparison
from tests.fuzz.shrink import shrink
from tests.system.sandbox.walls import can

# Where no sandbox can be had, the one test that holds is that the program says so.
HAS_SANDBOX = can("bubblewrap")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box | None]:
    if not HAS_SANDBOX:
        yield None
        return
    made = Box(tmp_path_factory.mktemp("fuzz") / "box")
    yield made
    made.close()


HARMFUL = {
    "npm publish": "ran npm publish",
    "./run.sh | head": "ran run.sh",
    "echo a > new.txt": "wrote /work/new.txt",
    "git branch new": "wrote /work/.git",
    "cat .env | rev": "opened /work/.env",
    "git show HEAD:.env": "printed the content of a denied file",
    "cat < /dev/tcp/192.0.2.1/80": "tried to connect",
    "sort -S 1b --compress-program=tripwire src/app.py": "ran tripwire",
}
HARMLESS = (
    "ls -la",
    "git status --short",
    "git diff HEAD~1",
    "find . -name '*.py' | xargs wc -l",
    # It prints libc, which contains the words of a failed attempt to connect.
    "grep -a 'Name or service' /lib/*/libc.so.6",
)


@pytest.mark.parametrize("line", HARMFUL)
def test_harm_of_every_kind_is_seen(box: Box | None, line: str) -> None:
    if box is not None:
        assert HARMFUL[line] in harm(box.run([line])[0], line, "deny")


def test_many_lines_are_run_together_and_each_is_seen_alone(box: Box | None) -> None:
    if box is not None:
        lines = [*HARMLESS, "npm publish", *HARMLESS, "touch src/x; echo > src/y", *HARMLESS]
        seen = [harm(one, line, "deny") for one, line in zip(box.run(lines), lines, strict=True)]
        assert [bool(did) for did in seen] == [line not in HARMLESS for line in lines]


def test_a_line_without_end_is_stopped_and_the_next_one_runs(box: Box | None) -> None:
    if box is not None:
        endless, after = box.run(["tail -f a.py", "npm publish"])
        assert endless.hung
        assert after.trips == ("npm publish",)


def test_bash_and_the_grammar_read_usual_lines_alike(box: Box | None) -> None:
    if box is not None:
        lines = grammar.read_corpus("usual.txt") + grammar.read_corpus("readings.txt")
        assert Comparison(box).differences(lines) == []


def test_a_reader_that_misses_a_command_is_found_out(
    box: Box | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if box is not None:
        strict = sys.modules["clew.permissions.grammar"].read_line
        monkeypatch.setattr(
            "tests.fuzz.reading.read_line", lambda text: strict(text.partition("\n\\\n")[0])
        )
        assert Comparison(box).differences(["ls a.py\n\\\nnpm publish"]) == [
            ("ls a.py\n\\\nnpm publish", "npm publish")
        ]


def test_a_command_that_outlives_its_line_is_counted_to_it(box: Box | None) -> None:
    if box is not None:
        late = "cat <(for ((i = 0; i < 9999; i++)); do :; done; rec late)"
        records = Comparison(box).read_by_bash([late, *["ls a.py"] * 400], {"ls"})
        assert [number for number, words in records.items() if "late\0" in words] == [0]
        assert set(records[400]) == {"ls\0a.py\0"}


def test_the_same_seed_gives_the_same_lines() -> None:
    def lines(seed: int) -> list[str]:
        rng = Random(seed)
        return [grammar.line(rng) for _ in range(300)]

    assert lines(7) == lines(7)
    assert lines(7) != lines(8)


def test_every_mutation_gives_lines() -> None:
    rng = Random(1)
    for _, mutate in grammar.MUTATIONS:
        made = {mutate(rng, "cat a.py | head -5") for _ in range(50)}
        assert len(made) > 10


def test_a_finding_becomes_small() -> None:
    text = "ls -la && cat a.py; npm publish | head"
    assert shrink(text, lambda line: "npm" in line) == "npm"


def test_a_finding_is_printed_so_that_bash_reads_it_again() -> None:
    for line in ("ls 'a b'\n\\\nx", "echo \u00a0 $'x'", "a\tb\\c", "plain"):
        printed = subprocess.run(
            ["bash", "-c", f"printf %s {shell_quoted(line)}"], check=True, capture_output=True
        )
        assert printed.stdout.decode() == line


def test_one_line_is_judged_and_run_or_the_program_says_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--line", "cat .env", "--rules", "deny"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=Path(__file__).parents[2],
    )
    if HAS_SANDBOX:
        assert "  deny: deny" in done.stdout
        assert "it opened /work/.env" in done.stdout
    else:
        assert done.returncode == 2
        assert "bubblewrap" in done.stderr
