"""Build the documentation site into .build/site from the pages in docs: `make site`.

The pages are copied first, because two things differ on the site: a link to a file of the source
becomes plain text, and the changelog and the security policy are pages too. Zensical then renders
the copies. It fails on a link to a missing page or heading.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILD = ROOT / ".build" / "site"
EXTRA = ("CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#|mailto:)([^)\s#]+)((?:#[^)]*)?)\)")


def page_on_site(path: Path) -> Path | None:
    """Return the place of a file below the site's pages; None for a file that is not on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS)
    return Path(path.name) if path in [ROOT / name for name in EXTRA] else None


def for_site(text: str, source: Path) -> str:
    """Return the text of a page with its links as they are on the site."""
    here = page_on_site(source)
    assert here is not None

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found.groups()
        place = page_on_site(Path(os.path.normpath(source.parent / target)))
        if place is None:
            return label
        return f"[{label}]({os.path.relpath(place, here.parent)}{anchor})"

    return LINK.sub(link, text)


def copy_pages() -> None:
    """Copy every page and picture to the build folder."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(DOCS, BUILD / "pages", ignore=shutil.ignore_patterns("*.md", "*.toml"))
    shutil.copy(DOCS / "site.toml", BUILD / "zensical.toml")
    for source in [*DOCS.rglob("*.md"), *(ROOT / name for name in EXTRA)]:
        place = page_on_site(source)
        assert place is not None
        (BUILD / "pages" / place).write_text(for_site(source.read_text("utf-8"), source), "utf-8")


def main() -> int:
    copy_pages()
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--strict"], cwd=BUILD, check=False)
    if done.returncode == 0:
        print(f"serve it with: {sys.executable} -m http.server -d {BUILD / 'site'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
