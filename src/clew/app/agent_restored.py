"""What an agent was of which the file beside its transcript is lost: said by the call that began it.

No folder may have taken that file, or somebody removed it. What is found is written where it belongs.

Decision: docs/decisions/325-copies-of-sessions.md
"""

from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.app.agent import checkout_fields
from clew.config.there import is_folder
from clew.messages.messages import Assistant
from clew.subagents.past import Begun, blocks_of
from clew.subagents.worktree import checkout_of
from clew.tools.agent import GENERAL
from clew.transcript.agents import AgentMetadata, agents, entry_of, read_metadata, write_metadata
from clew.transcript.lineage import header_of
from clew.transcript.paths import AGENT, Place, project_dir
from clew.transcript.unsaved import lines_of, with_unsaved

Json: TypeAlias = dict[str, Any]


def moved_along(cwd: str, place: Place, home: Path, here: str) -> str:
    """The folder that an agent worked in, where it is by now: its session may have been brought along
    with a project that was moved."""
    began = header_of(place.transcript).get("cwd")
    is_along = place.project_dir == project_dir(home, here)
    if type(began) is not str or not is_along or is_folder(began) or is_folder(cwd):
        return cwd
    return here + cwd[len(began) :] if f"{cwd}/".startswith(f"{began}/") else cwd


def restore(place: Place, home: Path, wanted: Container[str] | None = None) -> None:
    """What agents were (None: all) of which no folder took it: the calls that began them say so, and they
    themselves where they worked and with which model."""
    there = agents(place, home)
    lost = [
        path
        for path in there
        if (wanted is None or id_of(path) in wanted) and read_metadata(path, home) is None
    ]
    for parent in (place.transcript, *there) if lost else ():
        begun = Begun(entries_in(parent, home))
        for path in lost:
            own = with_unsaved(path, home).messages
            call = begun.call_of(id_of(path), said_first(own))
            if call is not None and parent != path:
                by = None if parent == place.transcript else read_metadata(parent, home)
                parent_id = "" if parent == place.transcript else id_of(parent)
                said = as_called(id_of(path), call, own, parent_id, by)
                write_metadata(path, said, home)


def id_of(path: Path) -> str:
    return path.stem.removeprefix(AGENT)


def entries_in(path: Path, home: Path) -> Iterator[Json]:
    """All that a file says, what was written ahead of its place too."""
    for raw in lines_of(path, home):
        if b'"tool_use' in raw:
            entry = entry_of(raw)
            owed = entry.get("owed")
            yield entry
            yield from (one for one in owed if type(one) is dict) if type(owed) is list else ()


def said_first(messages: Sequence[Json]) -> str:
    first = next((one for one in messages if one.get("type") == "user"), {})
    content = (first.get("message") or {}).get("content")
    texts = [block.get("text") for block in blocks_of(first)]
    return content if type(content) is str else str(texts[0] if texts else "")


def as_called(
    agent_id: str, call: Json, own: Sequence[Json], parent_id: str, by: AgentMetadata | None
) -> AgentMetadata:
    given = call["input"]
    cwd = next((one["cwd"] for one in reversed(own) if type(one.get("cwd")) is str), "")
    answers = [Assistant(one) for one in own if one.get("type") == "assistant"]
    depth = by.more.get("spawnDepth", 1) if by is not None else 0
    is_done = bool(answers) and own[-1].get("type") == "assistant"
    more = {
        "finished": "completed" if is_done and answers[-1].stop_reason == "end_turn" else None,
        "name": given.get("name"),
        "cwd": cwd,
        "model": next((one.model for one in reversed(answers) if not one.is_synthetic), None),
        "parentAgentId": parent_id,
    }
    tree = checkout_of(cwd, f"{AGENT}{agent_id}")
    return AgentMetadata(
        agent_type=str(given.get("subagent_type") or GENERAL),
        worktree_path=None if tree is None else tree.path,
        description=str(given.get("description") or ""),
        tool_use_id=str(call.get("id")),
        more={
            "spawnDepth": depth + 1,
            **{key: value for key, value in more.items() if value},
            **checkout_fields(tree),
        },
    )
