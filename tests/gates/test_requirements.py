"""The table of requirements and the tests name each other, in both directions."""

from pathlib import Path

from tests.requirements import BY_ID, RECORDS, UNSEEN, ids_in_tests
from tests.runs import Runs

TESTS = Path(__file__).parents[1]
STATES = ("done", "deferred: ", "diverges: ")


def test_every_record_of_the_specification_is_here_once() -> None:
    expected = [f"R{n:03d}" for n in range(1, 300)]
    expected += [f"C{n}" for n in range(1, 18)]
    expected += [f"W{n}" for n in range(1, 35)]
    expected += [f"V{n}" for n in range(1, 13)]
    assert [r.id for r in RECORDS] == expected


def test_every_record_says_something_and_has_a_known_state() -> None:
    for record in RECORDS:
        assert record.sentence, record
        assert record.state == "done" or record.state.startswith(STATES[1:]), record
        assert record.state not in STATES[1:], f"{record.id}: say why"


def test_every_done_record_has_a_test_and_every_named_record_is_done() -> None:
    named: dict[str, str] = dict(ids_in_tests(TESTS))
    unknown = {i: path for i, path in named.items() if i not in BY_ID}
    assert not unknown, f"tests name records that do not exist: {unknown}"
    unshown = [r.id for r in RECORDS if r.state == "done" and r.id not in named]
    assert not unshown, f"done, but no test carries the id: {unshown}"
    early = {i: path for i, path in named.items() if BY_ID[i].state.startswith("deferred")}
    assert not early, f"tests show records that are still deferred; set them done: {early}"


def test_every_done_record_is_shown_by_a_run() -> None:
    done = [r.id for r in RECORDS if r.state == "done"]
    without = Runs(TESTS).list_unshown(done)
    assert without == UNSEEN.keys(), "done, but no test with the id runs the program"


def test_a_run_is_found_over_names_imports_and_fixtures(tmp_path: Path) -> None:
    """A test of single modules does not count as a run, whatever else its file contains."""
    root = tmp_path / "tests"
    root.mkdir()
    (root / "conftest.py").write_text("import pytest\nfrom tests.helps import Host\n@pytest.fixture\n"
        "def host():\n    return Host()\n", "utf-8")  # fmt: skip
    (root / "helps.py").write_text("from tests.fronts.headless.forked import Forked\n"
        "class Host(Forked):\n    def say(self): ...\n", "utf-8")  # fmt: skip
    mark = "@requirement"
    (root / "test_it.py").write_text(
        "from tests import helps\nfrom tests.requirements import requirement\n"
        "WORDS = ['-m', 'clew']\n"
        f'{mark}("A")\ndef test_fixture(host): ...\n'
        f'{mark}("B")\ndef test_attribute():\n    helps.Host()\n'
        f'{mark}("C")\ndef test_words():\n    start(WORDS)\n'
        f'{mark}("D", "E")\ndef test_part(tmp_path):\n    test_part(helps)\n',
        "utf-8",
    )
    told = {record: is_run for record, _, is_run in Runs(root).records()}
    assert Runs(root).list_unshown("ABCDEF") == {"D", "E", "F"}
    assert told == {"A": True, "B": True, "C": True, "D": False, "E": False}
