"""Output styles: how the model speaks, out of a file or of our own, in place of how it would.

A style is a markdown file; what it says goes into the system prompt. Unless its head says
`keep-coding-instructions: true`, it stands in the place of how clew works as well, not only of how it
speaks: a style may make something else of it than a coding agent.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from clew.agent.options import SOURCES, Options
from clew.core.messages.errors import describe_error
from clew.permissions.session_rules import CurrentRules
from clew.system.config import frontmatter
from clew.system.config.settings import read_text
from clew.system.files import is_file, read_content

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
        return next((style for style in self.found if style.name.lower() == name.lower()), None)


def find(places: Iterable[tuple[Path, str]]) -> Styles:
    """Styles of folders and files, the strongest first, each with what stands before its names."""
    by_name: dict[str, Style] = {}
    faults: list[str] = []
    for place, prefix in places:
        for path in [place] if is_file(place) else sorted(place.glob("*.md")):
            try:
                head = frontmatter.read(read_content(path, MAX_BYTES).decode("utf-8", "replace"))
            except OSError as error:
                faults.append(describe_error(error))
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
    for style in BUILTIN:
        by_name.setdefault(style.name, style)
    return Styles(found=tuple(by_name.values()), faults=tuple(faults))


# The output style of a session: what the settings name, out of all there are.


WAITS = "waits until the folder is trusted: clew config trust"
NAME_OF_LANGUAGE = re.compile(r"[^\W\d_][\w '()-]{1,39}")


class Speech:
    """The style and language that a session speaks in, which stay, and those that could be, which are looked for
    whatever is named: hosts list them."""

    def __init__(
        self, options: Options, standing: CurrentRules, plugins: list[tuple[Path, str]]
    ) -> None:
        self._options = options
        self.reload(standing, plugins)
        # As the settings spell it, whether there is such a one or not; what hosts compare with.
        self.named = read_text(standing.settings, "outputStyle") or DEFAULT
        style = self.styles.named(self.named)
        self.style = BUILTIN[0] if style is None else style
        self.faults = self.styles.faults
        if style is None:
            self.faults += (f"outputStyle: {self.no_such(self.named)}",)
        language = read_text(standing.settings, "language") or ""
        # A project's settings may name one; words that instruct are no name.
        self.language = language if NAME_OF_LANGUAGE.fullmatch(language) else ""
        if language and not self.language:
            self.faults += (f"language: {language[:60]!r} is no name of a language",)

    def reload(self, standing: CurrentRules, plugins: list[tuple[Path, str]]) -> None:
        """Looks for styles again."""
        self.styles: Styles = find([*folders(self._options, standing), *plugins])
        # What the project has and nobody vouches for yet.
        waiting = [] if standing.is_trusted else of_project(self._options, standing)
        own = {style.name for style in BUILTIN}
        self.held = tuple(style for style in find(waiting).found if style.name not in own)

    def no_such(self, name: str) -> str:
        """Why there is no style of that name."""
        if any(style.name.lower() == name.lower() for style in self.held):
            return f"the project's style {name!r} {WAITS}"
        names = ", ".join(style.name for style in self.styles.found)
        return f"there is no style {name!r}; there are {names}"


def of_project(options: Options, standing: CurrentRules) -> list[tuple[Path, str]]:
    """Where the project's styles lie, trusted or not."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    is_one = "project" in sources and places.root / ".claude" != places.config_home
    return [(places.root / ".claude" / FOLDER, "")] if is_one else []


def folders(options: Options, standing: CurrentRules) -> list[tuple[Path, str]]:
    """The strongest first: the organisation's, the person's own, the project's."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    pairs = [(folder / ".claude" / FOLDER, "") for folder in places.managed_folders]
    if "user" in sources:
        pairs.append((places.config_home / FOLDER, ""))
    return [*pairs, *of_project(options, standing)] if standing.is_trusted else pairs
