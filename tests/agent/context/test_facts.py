"""Facts are attachments with frozen text, which later requests repeat."""

from clew.agent.context.facts import (
    MAX_TREE_LINES,
    Fact,
    make_date_fact,
    make_environment_fact,
    make_git_fact,
    make_memory_fact,
    make_tree_fact,
)
from clew.agent.context.git_report import Report
from clew.agent.context.memory import MemoryFile
from clew.core.messages import factories
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from tests.core.normalize.build import told, user
from tests.requirements import requirement

FILE = MemoryFile(path="/a/CLAUDE.md", layer="project", text="be kind", sha256="")


def recorded(fact: Fact) -> dict[str, object]:
    return factories.make_attachment(
        fact.payload,
        uuid="u",
        at="2026-01-01T00:00:00.000Z",
        rendered=fact.rendered,
        role=fact.role,
    )


@requirement("C2", "W12", "R117")
def test_facts_go_to_the_model_from_the_log_and_not_into_the_system_prompt() -> None:
    memory = make_memory_fact([FILE])
    assert memory is not None
    where = make_environment_fact(
        cwd="/a", is_repository=True, platform="linux", os_version="6", model="m", folders=["/b"]
    )
    entries = [
        user("hi"),
        recorded(memory),
        recorded(where),
        recorded(make_date_fact("2026-01-01")),
    ]
    said, facts = told(for_api(entries, Target(system_messages=True)).messages)
    assert said.startswith("u: <system-reminder>\nInstructions from files")
    assert "Contents of /a/CLAUDE.md (project instructions):\n\nbe kind" in said
    assert said.endswith("</system-reminder> hi")
    assert facts == (
        "s: Working directory: /a\nGit repository: yes\nPlatform: linux (6)\nModel: m\nAdditional directory: /b"
        " Today is 2026-01-01."
    )
    (alone,) = told(for_api(entries, Target()).messages)
    assert alone.count("<system-reminder>") == 3


def test_no_memory_is_no_fact() -> None:
    assert make_memory_fact([]) is None


@requirement("R118")
def test_the_repository_is_told_as_it_was() -> None:
    fact = make_git_fact(Report(branch="main"))
    assert fact.rendered[0].count("Branch: main") == 1
    assert fact.payload["context"]["gitStatus"] in fact.rendered[0]


def test_the_structure_of_a_folder_is_bounded() -> None:
    fact = make_tree_fact([*(f"src/d{n:03}/x.py" for n in range(200)), "a.py", "src/b.py"])
    lines = fact.rendered[0].split("\n")
    assert lines[2:5] == ["a.py", "src/b.py", "src/d000/"]
    assert lines[-2] == f"... and {202 - MAX_TREE_LINES} more"
    assert "more" not in make_tree_fact(["a"]).rendered[0]
