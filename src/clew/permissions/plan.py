"""Where a session's plan is written: the one file that plan mode lets the model change.

Owns the place. A folder that settings name counts only inside the project and where nothing is
protected: its files are written unasked, and the settings may have come with the project.
"""

from clew.permissions.protected import is_below, why_protected_write
from clew.permissions.session_rules import Standing

DEFAULT = "plans"


def plan_file(standing: Standing, session_id: str) -> str:
    """The real path of the plan."""
    named = standing.settings.get("plansDirectory")
    if isinstance(named, str) and named:
        root = standing.resolve(str(standing.places.root)).real
        folder = named if named.startswith(("/", "~")) else f"{root}/{named}"
        found = standing.resolve(f"{folder}/{session_id}.md")
        usable = found.known and is_below(found.real, root)
        if usable and why_protected_write(found, standing.context) is None:
            return found.real
    return f"{standing.context.config_home}/{DEFAULT}/{session_id}.md"
