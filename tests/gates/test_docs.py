"""Links lead to pages and headings that exist, prose is at most 100 columns wide, and the site lists every page."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.house import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
WIDTH = 100
# A row of a table, and a link on its own.
UNWRAPPED = re.compile(r" *\||- \[[^\]]*\]\([^)]*\)$")
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.S)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)
PATH = re.compile(r"(?<![\w/.])docs/(?:using|extending|internals|decisions)/[\w/-]+\.md")
OLD_PATH = re.compile(r"(?<![\w/.\"])docs/[a-z-]+\.md")


def prose(page: Path) -> str:
    """Return the text of a page without its code."""
    return CODE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> Iterator[str]:
    """Yield the anchors that renderers of Markdown give to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        kept = re.sub(r"[^\w\s-]", "", heading.strip().lower())
        yield re.sub(r"\s", "-", kept)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for link in map("".join, LINK.findall(prose(page))):
        target, _, anchor = link.partition("#")
        path = page.parent / target if target else page
        assert path.exists(), f"{name(page)}: dead link {link}"
        if anchor and path.suffix == ".md":
            assert anchor in set(anchors(path)), f"{name(page)}: no heading for {link}"


def test_the_source_names_pages_that_exist() -> None:
    for folder in ("src", "scripts", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text("utf-8")
            for found in PATH.findall(text):
                assert (ROOT / found).exists(), f"{name(path)}: no page {found}"
            moved = [each for each in OLD_PATH.findall(text) if not (ROOT / each).exists()]
            assert not moved, f"{name(path)}: no page {moved}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_prose_is_at_most_100_columns_wide(page: Path) -> None:
    """Code, generated parts, rows of tables and links on their own may be wider."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    lines = GENERATED.sub("", text).splitlines()
    assert [line for line in lines if len(line) > WIDTH and not UNWRAPPED.match(line)] == []


def test_the_site_and_the_index_list_every_page() -> None:
    site = (ROOT / "docs" / "site.toml").read_text("utf-8")
    nav = re.findall(
        r'"([\w/-]+\.md)"', str(tomllib.loads(site)["project"]["nav"]).replace("'", '"')
    )
    pages = [
        str(page.relative_to(ROOT / "docs"))
        for folder in ("using", "extending", "internals")
        for page in (ROOT / "docs" / folder).glob("*.md")
    ]
    index = LINK.findall((ROOT / "docs" / "index.md").read_text("utf-8"))
    assert len(nav) == len(set(nav))
    assert set(pages) <= set(nav)
    assert set(pages) <= {link for link, _ in index}
