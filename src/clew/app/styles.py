"""The output style of a session: what the settings name, out of all there are."""

from pathlib import Path

from msgspec import Struct

from clew.context.output_styles import BUILTIN, DEFAULT, FOLDER, Style, Styles, find
from clew.options import SOURCES, Options
from clew.permissions.session_rules import Standing


class Speech(Struct, frozen=True, kw_only=True):
    """The style that a session speaks in, and those it could."""

    style: Style
    styles: Styles
    # As the settings spell it, whether there is such a one or not; what hosts compare with.
    named: str = DEFAULT
    faults: tuple[str, ...] = ()


def speech(options: Options, standing: Standing, plugins: list[tuple[Path, str]]) -> Speech:
    """Files are looked for whatever is named: hosts list what could be."""
    styles = find([*folders(options, standing), *plugins])
    named = standing.settings.get("outputStyle")
    name = named if isinstance(named, str) and named else DEFAULT
    style = styles.named(name)
    if style is not None:
        return Speech(style=style, styles=styles, named=name, faults=styles.faults)
    there = ", ".join(one.name for one in styles.found)
    missing = f"outputStyle: there is no style {name!r}; there are {there}"
    return Speech(style=BUILTIN[0], styles=styles, named=name, faults=(*styles.faults, missing))


def folders(options: Options, standing: Standing) -> list[tuple[Path, str]]:
    """The strongest first: the organisation's, the person's own, the project's."""
    places = standing.places
    sources = SOURCES if options.sources is None else options.sources
    found = [folder / ".claude" / FOLDER for folder in places.managed_folders]
    if "user" in sources:
        found.append(places.config_home / FOLDER)
    if (
        "project" in sources
        and standing.is_trusted
        and places.root / ".claude" != places.config_home
    ):
        found.append(places.root / ".claude" / FOLDER)
    return [(folder, "") for folder in found]
