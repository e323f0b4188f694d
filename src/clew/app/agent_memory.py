"""What an agent remembers from one piece of work to the next: a folder of notes of its own.

`user` is below the config home, `project` and `local` in the project. The agent reads and writes them
with its ordinary tools, under the ordinary rules.
"""

from pathlib import Path

from clew.config.paths import Places
from clew.config.regular import content
from clew.context.facts import Fact
from clew.messages.wording import tagged
from clew.subagents.specs import Spec

FILE = "MEMORY.md"
SHOWN_BYTES = 24 * 1024


def folder_of(spec: Spec, places: Places) -> Path:
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in spec.name)
    folders = {
        "user": places.config_home / "agent-memory",
        "project": places.root / ".claude" / "agent-memory",
        "local": places.root / ".claude" / "agent-memory-local",
    }
    return folders[spec.memory or "user"] / name


def memory_fact(spec: Spec, places: Places) -> Fact | None:
    """The agent's notes so far, and where they are; none where it keeps none."""
    if spec.memory is None:
        return None
    folder = folder_of(spec, places)
    try:
        notes = content(folder / FILE, SHOWN_BYTES).decode("utf-8", "replace")
    except OSError:
        notes = ""
    so_far = f"{FILE} says:\n\n{notes}" if notes else f"There is no {FILE} yet."
    words = (
        f"You keep notes for yourself in {folder}: {FILE} is shown to you at the beginning of each "
        "piece of work, so keep it short and let it name further files. Note what will help next "
        f"time, and correct what turned out wrong. {so_far}"
    )
    return Fact(
        payload={"type": "agent_memory", "folder": str(folder)},
        rendered=(tagged("system-reminder", f"\n{words}\n"),),
    )
