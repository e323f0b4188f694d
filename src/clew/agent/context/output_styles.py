"""Output styles: instructions for how the model communicates, built in or read from files.

A style is a Markdown file whose text replaces the default style in the system prompt. Unless its
front matter has `keep-coding-instructions: true`, it also replaces the instructions on how to work,
so a style can turn clew into something other than a coding agent.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.agent.context.system_prompt import COMMITS, PULL_REQUESTS
from clew.agent.options import SOURCES, Options
from clew.core.json_object import text_of
from clew.core.messages.errors import describe_error
from clew.core.regex import lazy_pattern
from clew.permissions.session_rules import CurrentRules
from clew.system.config import frontmatter
from clew.system.config.settings import read_object, read_switch, read_text
from clew.system.files import is_file, read_content

DEFAULT = "default"
FOLDER = "output-styles"
MAX_BYTES = 64 * 1024


class Style(Struct, frozen=True, kw_only=True):
    """An output style; `text` contains its instructions, and is empty for the default style."""

    name: str
    description: str = ""
    text: str = ""
    keeps_work: bool = True
    where: str = ""


EXPLANATORY = """\
The user wants to understand the work as well as get it done.
- Before and after a change, explain in two or three sentences why it is done this way: which pattern of
  this code it follows, what the alternatives were, what it costs.
- Choose what is specific to this code base or decision. Leave out textbook knowledge.
- Put these remarks under a line `Insight:` to separate them from reports about the work."""

LEARNING = """\
The user wants to learn by doing part of the work.

- Do the routine parts yourself. Where a choice shapes the result (an algorithm, error handling, a data
  structure), prepare the place, mark it with a comment `TODO(human)`, and ask the user to write those two
  to ten lines; explain the task, what is given, and the arguments for each option.
- Leave at most one such place at a time. Then wait; read what they wrote, say plainly what works and
  what does not, and continue.
- If they would rather have it done, do it."""

BUILTIN = (
    Style(name=DEFAULT, description="Brief and plain"),
    Style(name="explanatory", description="Explains the reasons for each change", text=EXPLANATORY),
    Style(name="learning", description="Leaves small parts for you to write", text=LEARNING),
)


class Styles(Struct, frozen=True, kw_only=True):
    """The available styles (one per name, by precedence), and the problems in style files."""

    found: tuple[Style, ...]
    faults: tuple[str, ...] = ()

    def named(self, name: str) -> Style | None:
        """Return the style with this name, ignoring case, or None."""
        return next((style for style in self.found if style.name.lower() == name.lower()), None)


def find(places: Iterable[tuple[Path, str]]) -> Styles:
    """Load styles from `places`: folders and files, those with the highest precedence first.

    Each place has a prefix for the names of its styles.
    """
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


# The session's output style, selected by the settings.


WAITS = "not loaded until you trust this folder (run clew config trust)"
CREDIT, CREDIT_CHARACTERS = "Assisted-by: clew", 1000
# In the credit of a commit: the share of the changed lines that the session's calls wrote.
SHARE = "{share}"
_SHARE = lazy_pattern(r"[ \t]*[(\[]?\{share\}[)\]]?")
NAME_OF_LANGUAGE = lazy_pattern(r"[^\W\d_][\w '()-]{1,39}")


def describe_attribution(settings: Mapping[str, Any]) -> str:
    """Return the instructions on how commits and pull requests mention clew, or an empty string.

    `attribution` takes precedence over the older `includeCoAuthoredBy`; an empty string in it
    means that nothing is added.
    """
    request = text_of(read_object(settings, "attribution").get("pr", ""))
    parts = ((COMMITS, get_commit_credit(settings)), (PULL_REQUESTS, request))
    return "\n\n".join(
        f"{instruction}\n\n{text.strip()[:CREDIT_CHARACTERS]}"
        for instruction, text in ((instruction, cut_share(credit)) for instruction, credit in parts)
        if text.strip()
    )


def get_commit_credit(settings: Mapping[str, Any]) -> str:
    """Return the text that ends commit messages.

    The placeholder `SHARE` in it is replaced with the share of lines at the commit.
    """
    attribution = read_object(settings, "attribution")
    credit = attribution.get(
        "commit", CREDIT if read_switch(settings, "includeCoAuthoredBy") else ""
    )
    return credit if isinstance(credit, str) else ""


def cut_share(text: str) -> str:
    """Return a credit for the model, without the placeholder for the share of lines.

    The share is known only at the commit, so clew adds it then. If clew does not see the commit,
    the message is still well formed.
    """
    return _SHARE.sub("", text)


class Speech:
    """The session's output style, language, and commit attribution.

    All are fixed for the session. All available styles are loaded even if none is selected,
    because hosts list them.
    """

    def __init__(
        self, options: Options, standing: CurrentRules, plugins: list[tuple[Path, str]]
    ) -> None:
        self._options = options
        self.reload(standing, plugins)
        # The name in the settings, even if no such style exists; hosts compare with it.
        self.named = read_text(standing.settings, "outputStyle") or DEFAULT
        style = self.styles.named(self.named)
        self.style = BUILTIN[0] if style is None else style
        self.faults = self.styles.faults
        if style is None:
            self.faults += (f"outputStyle: {self.no_such(self.named)}",)
        language = read_text(standing.settings, "language") or ""
        # A project's settings may set the language, so reject text that could be instructions.
        self.language = language if NAME_OF_LANGUAGE.fullmatch(language) else ""
        if language and not self.language:
            self.faults += (f'language: "{language[:60]}" is not a valid language name',)
        self.attribution = describe_attribution(standing.settings)

    def reload(self, standing: CurrentRules, plugins: list[tuple[Path, str]]) -> None:
        """Load the available styles again."""
        self.styles: Styles = find([*folders(self._options, standing), *plugins])
        # The project's styles, which are not used until the project is trusted.
        waiting = [] if standing.is_trusted else of_project(self._options, standing)
        own = {style.name for style in BUILTIN}
        self.held = tuple(style for style in find(waiting).found if style.name not in own)

    def no_such(self, name: str) -> str:
        """Return an error message for a style that is not available."""
        if any(style.name.lower() == name.lower() for style in self.held):
            return f'the project\'s style "{name}" is {WAITS}'
        names = ", ".join(style.name for style in self.styles.found)
        return f'unknown style "{name}" (expected one of {names})'


def of_project(options: Options, standing: CurrentRules) -> list[tuple[Path, str]]:
    """Return the locations of the project's styles, even if the project is not trusted."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    is_one = "project" in sources and places.root / ".claude" != places.config_home
    return [(places.root / ".claude" / FOLDER, "")] if is_one else []


def folders(options: Options, standing: CurrentRules) -> list[tuple[Path, str]]:
    """Return the style folders of the organization, the user and, if trusted, the project."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    pairs = [(folder / ".claude" / FOLDER, "") for folder in places.managed_folders]
    if "user" in sources:
        pairs.append((places.config_home / FOLDER, ""))
    return [*pairs, *of_project(options, standing)] if standing.is_trusted else pairs
