"""Plug-ins of installed packages, found by their entry points.

Nothing is searched until a name is requested, because the search reads the metadata of all
packages.
"""

from typing import Any

from clew.core.messages.errors import UserError

PROVIDERS, STORES, PARTS = "clew.providers", "clew.stores", "clew.parts"


def load_plug_in(group: str, name: str) -> Any | None:
    """Return the object that a package registers under this name, or None."""
    from importlib.metadata import entry_points

    for point in entry_points(group=group, name=name):
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise UserError(f"{group}: {name} ({point.value}) can't be loaded: {error}") from error
    return None
