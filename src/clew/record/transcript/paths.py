"""Where a session's files lie. Names only: nothing here makes, opens or locks a file.

The layout is shared with other programs and described in docs/internals/transcript.md; what is clew's own
lies below `<config home>/clew/`.
"""

import os
import re
import tempfile
import unicodedata
from pathlib import Path

import msgspec

from clew.record.transcript.light import is_uuid
from clew.system.files import is_folder

LONGEST_NAME = 200
# How the names of subagents' files begin.
AGENT = "agent-"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_AGENT_ID = re.compile(r"[A-Za-z0-9_-]+")


def is_begun(transcript: Path) -> bool:
    """Whether a transcript holds anything; an empty file is a name that somebody kept free."""
    try:
        return transcript.stat().st_size > 0
    except OSError:
        return False


def get_projects_dir(home: Path) -> Path:
    return home / "projects"


def get_own_dir(home: Path) -> Path:
    """clew's own corner of the config home: what no other program knows of."""
    return home / "clew"


def home_of(transcript: Path) -> Path:
    """The config home that a transcript lies in."""
    return Path(os.path.normpath(transcript.absolute().parent / ".." / ".."))


def get_task_list_dir(home: Path, session_id: str) -> Path:
    """The numbered tasks that a session's model keeps."""
    return home / "tasks" / session_id


def rescue_dirs(home: Path) -> list[Path]:
    """Where lines go that the transcript does not take, in this order: the second for each home its own.

    Where no folder for passing things takes a file, there is no second.
    """
    own = get_own_dir(home) / "unsaved"
    try:
        passing = Path(tempfile.gettempdir())
    except FileNotFoundError:
        return [own]
    whose = f"clew-{os.geteuid()}-{_base36(_hash32(list(os.fsencode(home.absolute()))))}"
    return [own, passing / whose]


def copy_name(path: Path) -> str:
    """What emergency copies of a transcript are called: a subagent's, and what is kept beside it, by its
    session too, for a session that was made of another has agents of the same ids."""
    if not path.name.startswith(AGENT):
        return path.name
    above = next((p for p in path.parents if p.name == "subagents"), path)
    return f"{path.stem}.{above.parent.name}{path.suffix}"


def resolve_folder(folder: str) -> str:
    """The one spelling of a working directory, symlinks resolved."""
    return unicodedata.normalize("NFC", os.path.realpath(folder))


def encode_path(folder: str) -> str:
    """A path as one name: every UTF-16 unit but ASCII letters and digits becomes `-`.

    Over 200 characters it is cut and carries a hash of the whole. Two paths may share a name; the
    `cwd` of the entries tells them apart.
    """
    units = folder.encode("utf-16-le", "surrogatepass")
    codes = [low | high << 8 for low, high in zip(units[::2], units[1::2], strict=True)]
    name = "".join(chr(c) if c < 128 and chr(c).isalnum() else "-" for c in codes)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{_base36(_hash32(codes))}"


def _hash32(codes: list[int]) -> int:
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    return value if value < 0x80000000 else value - 0x100000000


def _base36(number: int) -> str:
    rest, text = abs(number), ""
    while rest:
        rest, digit = divmod(rest, 36)
        text = _DIGITS[digit] + text
    return text or "0"


def get_project_dir(home: Path, cwd: str) -> Path:
    """The folder of the sessions started in `cwd`.

    A long path whose own folder is missing takes one that agrees in the first 200 characters:
    writers have used different hashes.
    """
    exact = get_projects_dir(home) / encode_path(resolve_folder(cwd))
    if len(exact.name) <= LONGEST_NAME or is_folder(exact):
        return exact
    beginning = exact.name[: LONGEST_NAME + 1]
    near = sorted(get_projects_dir(home).glob(f"{beginning}*"))
    return near[0] if near else exact


class SessionPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A session id and the folder its transcript lies in: one value, so that they never part."""

    session_id: str
    project_dir: Path

    def __post_init__(self) -> None:
        if not is_uuid(self.session_id):
            raise ValueError(f"not a session id: {self.session_id!r}")

    @property
    def transcript(self) -> Path:
        return self.project_dir / f"{self.session_id}.jsonl"

    @property
    def folder(self) -> Path:
        """What belongs to the session beside its transcript."""
        return self.project_dir / self.session_id

    @property
    def tool_results(self) -> Path:
        return self.folder / "tool-results"

    def agent(self, agent_id: str, group: str = "") -> Path:
        """A subagent's transcript, in its group's folder if it has one."""
        if not _AGENT_ID.fullmatch(agent_id):
            raise ValueError(f"not an agent id: {agent_id!r}")
        parts = group.split("/") if group else []
        if not all(_AGENT_ID.fullmatch(part) for part in parts):
            raise ValueError(f"not a group of agents: {group!r}")
        return self.folder.joinpath("subagents", *parts, f"{AGENT}{agent_id}.jsonl")


def get_sidecar(agent_transcript: Path) -> Path:
    """The small file beside a subagent's transcript that says what kind of agent it was."""
    return agent_transcript.with_suffix(".meta.json")


class SessionPaths:
    """Where the session that runs now is written; what a hook is told is where the writer writes.

    One `SessionPlace` is exchanged for another in one assignment: there is no moment in which the id is
    new and the folder old.
    """

    def __init__(self, *, home: Path, cwd: str, session_id: str) -> None:
        self.home = home
        self.cwd = resolve_folder(cwd)
        self.place = SessionPlace(
            session_id=session_id, project_dir=get_project_dir(home, self.cwd)
        )
        # Where a run that is not kept has what it makes beside the transcript; gone with it.
        self.aside: Path | None = None
        self._groups: dict[str, str] = {}

    @property
    def results(self) -> Path:
        """Where large outputs of this run are put."""
        own = self.place.tool_results
        return own if self.aside is None else self.aside / own.name

    def switch(self, session_id: str, folder: Path | None = None) -> SessionPlace:
        """Makes another session the current one, in its own folder if that is not this cwd's."""
        self.place = self.of(session_id, folder)
        self._groups = {}
        return self.place

    def of(self, session_id: str, folder: Path | None = None) -> SessionPlace:
        """Another session's place. Without its folder this is a guess: this cwd's."""
        if session_id == self.place.session_id and folder is None:
            return self.place
        return SessionPlace(
            session_id=session_id, project_dir=folder or get_project_dir(self.home, self.cwd)
        )

    def group_agent(self, agent_id: str, group: str) -> None:
        """Says before an agent runs in which group's folder it will be written."""
        self.place.agent(agent_id, group)
        self._groups[agent_id] = group

    def agent(self, agent_id: str) -> Path:
        return self.place.agent(agent_id, self._groups.get(agent_id, ""))


def find_session(home: Path, session_id: str) -> list[Path]:
    """Every transcript of that id, in whatever project's folder."""
    if not is_uuid(session_id):
        return []
    return sorted(get_projects_dir(home).glob(f"*/{session_id}.jsonl"))
