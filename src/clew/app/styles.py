"""The output style of a session: what the settings name, out of all there are."""

import re
from pathlib import Path

from clew.context.output_styles import BUILTIN, DEFAULT, FOLDER, Styles, find
from clew.options import SOURCES, Options
from clew.permissions.session_rules import Standing

WAITS = "waits until the folder is trusted: clew config trust"
NAME_OF_LANGUAGE = re.compile(r"[^\W\d_][\w '()-]{1,39}")


class Speech:
    """The style and language that a session speaks in, which stay, and those that could be, which are looked for
    whatever is named: hosts list them."""

    def __init__(
        self, options: Options, standing: Standing, plugins: list[tuple[Path, str]]
    ) -> None:
        self._options = options
        self.reload(standing, plugins)
        named = standing.settings.get("outputStyle")
        # As the settings spell it, whether there is such a one or not; what hosts compare with.
        self.named = named if isinstance(named, str) and named else DEFAULT
        style = self.styles.named(self.named)
        self.style = BUILTIN[0] if style is None else style
        self.faults = self.styles.faults
        if style is None:
            self.faults += (f"outputStyle: {self.no_such(self.named)}",)
        language = str(standing.settings.get("language", ""))
        # A project's settings may name one; words that instruct are no name.
        self.language = language if NAME_OF_LANGUAGE.fullmatch(language) else ""
        if language and not self.language:
            self.faults += (f"language: {language[:60]!r} is no name of a language",)

    def reload(self, standing: Standing, plugins: list[tuple[Path, str]]) -> None:
        """Looks for styles again."""
        self.styles: Styles = find([*folders(self._options, standing), *plugins])
        # What the project has and nobody vouches for yet.
        waiting = [] if standing.is_trusted else of_project(self._options, standing)
        own = {one.name for one in BUILTIN}
        self.held = tuple(one for one in find(waiting).found if one.name not in own)

    def no_such(self, name: str) -> str:
        """Why there is no style of that name."""
        if any(one.name.lower() == name.lower() for one in self.held):
            return f"the project's style {name!r} {WAITS}"
        there = ", ".join(one.name for one in self.styles.found)
        return f"there is no style {name!r}; there are {there}"


def of_project(options: Options, standing: Standing) -> list[tuple[Path, str]]:
    """Where the project's styles lie, trusted or not."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    is_one = "project" in sources and places.root / ".claude" != places.config_home
    return [(places.root / ".claude" / FOLDER, "")] if is_one else []


def folders(options: Options, standing: Standing) -> list[tuple[Path, str]]:
    """The strongest first: the organisation's, the person's own, the project's."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    found = [(folder / ".claude" / FOLDER, "") for folder in places.managed_folders]
    if "user" in sources:
        found.append((places.config_home / FOLDER, ""))
    return [*found, *of_project(options, standing)] if standing.is_trusted else found
