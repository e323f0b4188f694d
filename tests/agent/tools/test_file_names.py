"""The search for file names: how matches are ranked, and that it stays quick in large repositories."""

import pytest

from clew.agent.tools.file_names import Names, count_runs

MANY = [
    f"src/mod{module:03}/sub{part}/file_{number:02}.py"
    for module in range(300)
    for part in range(4)
    for number in range(25)
]


def test_runs_of_letters_rank_first_among_thirty_thousand_files() -> None:
    found = Names(MANY).find("mod150file_07", 40)
    assert found[:4] == [f"src/mod150/sub{part}/file_07.py" for part in range(4)]
    assert "src/mod015/sub0/file_07.py" in found[4:]


def test_whole_words_rank_before_runs() -> None:
    names = Names(["a/main.py", "main/x.py", "m/a/i/n.py", "amain.py", "ma/in.py"])
    assert names.find("main", 9) == [
        "main/",
        "a/main.py",
        "amain.py",
        "main/x.py",
        "ma/in.py",
        "m/a/i/n.py",
    ]


@pytest.mark.parametrize(
    ("name", "wanted", "runs"),
    [
        ("src/mod150/file_07", "mod150file_07", 2),
        ("src/mod015/sub0/file_07", "mod150file_07", 4),
        ("abc", "abc", 1),
        ("a-b-c", "abc", 3),
        ("ab-abc", "abcab", 5),
        ("abc", "abx", 3),
    ],
)
def test_runs_are_counted(name: str, wanted: str, runs: int) -> None:
    assert count_runs(name, wanted) == runs
