"""Output styles: how the model speaks, out of a file or of our own, in place of how it would.

A style is a markdown file; what it says goes into the system prompt. Unless its head says
`keep-coding-instructions: true`, it stands in the place of how clew works as well, not only of how it
speaks: a style may make something else of it than a coding agent.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from clew.config import frontmatter
from clew.config.regular import content
from clew.config.there import is_file
from clew.messages.errors import in_words

DEFAULT = "default"
FOLDER = "output-styles"
MAX_BYTES = 64 * 1024


class Style(Struct, frozen=True, kw_only=True):
    """`text` is what it says; the default says nothing of its own."""

    name: str
    description: str = ""
    text: str = ""
    keeps_work: bool = True
    where: str = ""


EXPLANATORY = """\
Besides the work, the person wants to understand it.

- Before and after a change, say in two or three sentences why it is done so here: which pattern of this
  code it follows, what else was possible, what it costs.
- Choose what is particular to this code base or this decision. Leave out what any textbook says.
- Put such remarks under a line `Insight:` so that they can be told from reports about the work."""

LEARNING = """\
The person wants to learn by doing part of the work.

- Do what is routine yourself. Where a choice forms the result (an algorithm, the handling of an error, the
  shape of some data), prepare the place, mark it with a comment `TODO(human)`, and ask the person to
  write those two to ten lines; say what they must do, what is given, and what speaks for either way.
- At most one such place at a time. Then wait; read what they wrote, say plainly what works and what does
  not, and go on.
- If they would rather have it done, do it."""

BUILTIN = (
    Style(name=DEFAULT, description="brief and plain"),
    Style(name="explanatory", description="says why, beside the work", text=EXPLANATORY),
    Style(name="learning", description="leaves the person small parts to write", text=LEARNING),
)


class Styles(Struct, frozen=True, kw_only=True):
    """The styles there are, the strongest of each name, and what is wrong with others."""

    found: tuple[Style, ...]
    faults: tuple[str, ...] = ()

    def named(self, name: str) -> Style | None:
        """The style of a name, however its letters are written."""
        return next((one for one in self.found if one.name.lower() == name.lower()), None)


def find(places: Iterable[tuple[Path, str]]) -> Styles:
    """Styles of folders and files, the strongest first, each with what stands before its names."""
    by_name: dict[str, Style] = {}
    faults: list[str] = []
    for place, prefix in places:
        for path in [place] if is_file(place) else sorted(place.glob("*.md")):
            try:
                head = frontmatter.read(content(path, MAX_BYTES).decode("utf-8", "replace"))
            except OSError as error:
                faults.append(in_words(error))
                continue
            faults += [f"{path}:{fault}" for fault in head.faults]
            name = prefix + (head.text("name") or path.stem)
            by_name.setdefault(
                name.lower(),
                Style(
                    name=name,
                    description=head.text("description"),
                    text=head.body.strip(),
                    keeps_work=head.flag("keep-coding-instructions") is True,
                    where=str(path),
                ),
            )
    for one in BUILTIN:
        by_name.setdefault(one.name, one)
    return Styles(found=tuple(by_name.values()), faults=tuple(faults))
