"""Plug-ins of installed packages, found by the entry points that the packages declare.

Nothing is imported until a name is asked for, because the search reads the metadata of all
packages.
"""

from typing import Any

from clew.core.messages.errors import UserError

PROVIDERS, STORES = "clew.providers", "clew.stores"


def load_plug_in(group: str, name: str) -> Any | None:
    """Return what a package offers under this name, or None if there is no such package."""
    from importlib.metadata import entry_points

    for point in entry_points(group=group, name=name):
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise UserError(f"{group}: {name} ({point.value}) can't be loaded: {error}") from error
    return None
