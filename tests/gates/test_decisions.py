"""Every decision page is linked from the index and named in the code.

Every page that is named exists.
"""

import re
from pathlib import Path

import pytest

from tests.gates.house import ROOT, SRC

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
PAGE_NAME = re.compile(r"decisions/(\d{3}[\w-]*\.md)")


def named_in(paths: list[Path]) -> dict[str, Path]:
    return {name: path for path in paths for name in PAGE_NAME.findall(path.read_text("utf-8"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_is_linked_from_the_index_under_its_title(page: Path) -> None:
    title = page.read_text("utf-8").split("\n", 1)[0].removeprefix("# ")
    assert re.match(rf"{page.name[:3]}: \S", title)
    assert f"- [{title}]({page.name})\n" in (FOLDER / "README.md").read_text("utf-8")


def test_each_decision_is_named_by_a_module_and_each_name_leads_to_a_page() -> None:
    pages = {page.name for page in PAGES}
    assert set(named_in(sorted(SRC.rglob("*.py")))) == pages
    prose = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert set(named_in(prose)) <= pages


def test_a_decisions_number_is_its_own() -> None:
    numbers = [page.name[:3] for page in PAGES]
    assert len(numbers) == len(set(numbers))
