"""The paths of a session's files. Names only: nothing here creates, opens or locks a file.

The layout is shared with other programs and described in docs/internals/transcript.md. clew's
private files are below `<config home>/clew/`.
"""

import os
import unicodedata
from pathlib import Path

import msgspec

from clew.core.regex import lazy_pattern
from clew.record.transcript.light import is_uuid
from clew.system.files import is_folder

LONGEST_NAME = 200
# The prefix of subagents' file names.
AGENT = "agent-"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_AGENT_ID = lazy_pattern(r"[A-Za-z0-9_-]+")


def is_begun(transcript: Path) -> bool:
    """Return whether a transcript has content; an empty file only reserves a name."""
    try:
        return transcript.stat().st_size > 0
    except OSError:
        return False


def get_projects_dir(home: Path) -> Path:
    return home / "projects"


def get_own_dir(home: Path) -> Path:
    """Return clew's private folder in the config home, which no other program uses."""
    return home / "clew"


def get_others_dir(home: Path) -> Path:
    """Return the config home with the copies of other agents' sessions."""
    return get_own_dir(home) / "others"


def home_of(transcript: Path) -> Path:
    """Return the config home that contains a transcript."""
    return Path(os.path.normpath(transcript.absolute().parent / ".." / ".."))


def get_task_list_dir(home: Path, session_id: str) -> Path:
    """Return the folder with the numbered tasks that the model keeps in a session."""
    return home / "tasks" / session_id


def get_backup_dir(home: Path, session_id: str) -> Path:
    """Return the folder with the copies of changed files that other tools use to rewind."""
    return home / "file-history" / session_id


def rescue_dirs(home: Path) -> list[Path]:
    """Return the folders for recovery files, in order of preference.

    The second is a temporary folder, a different one for each config home. It is missing if the
    machine has no usable temporary folder.
    """
    own = get_own_dir(home) / "unsaved"
    # Without `tempfile`, whose import takes a sixtieth of the start, and which writes test files.
    temp_folders = filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))
    for folder in map(Path, (*temp_folders, "/tmp", "/var/tmp", "/usr/tmp")):
        if is_folder(folder) and os.access(folder, os.W_OK | os.X_OK):
            whose = f"clew-{os.geteuid()}-{_base36(_hash32(list(os.fsencode(home.absolute()))))}"
            return [own, folder.absolute() / whose]
    return [own]


def copy_name(path: Path) -> str:
    """Return the name of a transcript's recovery file.

    The name of a subagent's file, or of its sidecar, includes the session: a session copied from
    another has agents with the same IDs.
    """
    if not path.name.startswith(AGENT):
        return path.name
    above = next((p for p in path.parents if p.name == "subagents"), path)
    return f"{path.stem}.{above.parent.name}{path.suffix}"


def resolve_folder(folder: str) -> str:
    """Return the canonical spelling of a working directory, with symlinks resolved."""
    return unicodedata.normalize("NFC", os.path.realpath(folder))


def encode_path(folder: str) -> str:
    """Encode a path as one name: each UTF-16 unit except ASCII letters and digits becomes `-`.

    A name over 200 characters is cut, and a hash of the full path appended. Two paths may share a
    name; the `cwd` of the entries tells them apart.
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
    """Return the folder of the sessions started in `cwd`.

    If a long path's own folder is missing, a folder that matches the first 200 characters is used,
    because writers have used different hashes.
    """
    exact = get_projects_dir(home) / encode_path(resolve_folder(cwd))
    if len(exact.name) <= LONGEST_NAME or is_folder(exact):
        return exact
    beginning = exact.name[: LONGEST_NAME + 1]
    near = sorted(get_projects_dir(home).glob(f"{beginning}*"))
    return near[0] if near else exact


class SessionPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A session ID and the folder of its transcript, in one value so that they always match."""

    session_id: str
    project_dir: Path

    def __post_init__(self) -> None:
        if not is_uuid(self.session_id):
            raise ValueError(f"invalid session ID: {self.session_id!r}")

    @property
    def transcript(self) -> Path:
        return self.project_dir / f"{self.session_id}.jsonl"

    @property
    def folder(self) -> Path:
        """The folder of the session's files other than the transcript."""
        return self.project_dir / self.session_id

    @property
    def tool_results(self) -> Path:
        return self.folder / "tool-results"

    def agent(self, agent_id: str, group: str = "") -> Path:
        """Return a subagent's transcript, in its group's folder if it has one."""
        if not _AGENT_ID.fullmatch(agent_id):
            raise ValueError(f"invalid agent ID: {agent_id!r}")
        parts = group.split("/") if group else []
        if not all(_AGENT_ID.fullmatch(part) for part in parts):
            raise ValueError(f"invalid agent group: {group!r}")
        return self.folder.joinpath("subagents", *parts, f"{AGENT}{agent_id}.jsonl")


def get_sidecar(agent_transcript: Path) -> Path:
    """Return the path of a subagent's sidecar, which records its type."""
    return agent_transcript.with_suffix(".meta.json")


class SessionPaths:
    """The paths of the current session; hooks receive the path to which the writer writes.

    One assignment replaces the `SessionPlace`, so the ID and the folder always change together.
    """

    def __init__(self, *, home: Path, cwd: str, session_id: str) -> None:
        self.home = home
        self.cwd = resolve_folder(cwd)
        self.place = SessionPlace(
            session_id=session_id, project_dir=get_project_dir(home, self.cwd)
        )
        # The temporary folder for tool outputs in a run without persistence; deleted with the run.
        self.aside: Path | None = None
        self._groups: dict[str, str] = {}

    @property
    def results(self) -> Path:
        """The folder for large tool outputs of this run."""
        own = self.place.tool_results
        return own if self.aside is None else self.aside / own.name

    def switch(self, session_id: str, folder: Path | None = None) -> SessionPlace:
        """Make another session the current one.

        Without `folder`, the session is in the folder of this working directory.
        """
        self.place = self.of(session_id, folder)
        self._groups = {}
        return self.place

    def of(self, session_id: str, folder: Path | None = None) -> SessionPlace:
        """Return the place of another session.

        Without `folder`, the session is assumed to be in the folder of this working directory.
        """
        if session_id == self.place.session_id and folder is None:
            return self.place
        return SessionPlace(
            session_id=session_id, project_dir=folder or get_project_dir(self.home, self.cwd)
        )

    def group_agent(self, agent_id: str, group: str) -> None:
        """Set the group folder in which an agent will be written, before it runs."""
        self.place.agent(agent_id, group)
        self._groups[agent_id] = group

    def agent(self, agent_id: str) -> Path:
        return self.place.agent(agent_id, self._groups.get(agent_id, ""))


def find_session(home: Path, session_id: str) -> list[Path]:
    """Return every transcript with the given session ID, in any project's folder."""
    if not is_uuid(session_id):
        return []
    return sorted(get_projects_dir(home).glob(f"*/{session_id}.jsonl"))
