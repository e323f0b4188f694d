"""A project's memory folder: memories, their index, and proposals for review.

Each memory is a file, and `MEMORY.md` is the index. A new conversation receives the index, up to
its limits; the model reads a memory when it is relevant. A proposal has no effect until the user
accepts it. Each memory names its source.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace as with_fields

from clew.agent.context.facts import Fact
from clew.core.messages.errors import UserError
from clew.core.messages.text import wrap_in_tag
from clew.system.files import is_there, open_only_files, replace

INDEX = "MEMORY.md"
PROPOSED = "proposed"
# Limits: lines and bytes of the index in a conversation, bytes of one memory, number of memories.
INDEX_LINES = 200
INDEX_BYTES = 25 * 1024
MEMORY_BYTES = 16 * 1024
MEMORIES = 500
PROPOSALS = 100
TITLE_CHARS = 120
NAME_CHARS = 50
_HEAD = re.compile(r"---\n(.*?)\n---\n?(.*)\Z", re.S)


class Memo(Struct, frozen=True, kw_only=True):
    """A memory for later sessions.

    `by` names its origin: `person` for the user's own words, `extraction` for a session, `dream`
    for tidying, or `file` for a file written by hand. `session` and `message` identify its source,
    and `at` is the time it was saved.
    """

    title: str
    text: str
    by: str
    session: str = ""
    message: str = ""
    said_by: str = ""
    at: str = ""
    name: str = ""
    # Memories to remove when this one is accepted.
    replaces: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The memory's source, as shown to the user."""
        message = f", message {self.message[:8]}" if self.message else ""
        where = f" in {self.session[:8]}{message}" if self.session else ""
        speaker = f", from {self.said_by}" if self.said_by else ""
        instead = f", replaces {', '.join(self.replaces)}" if self.replaces else ""
        return f"{self.by}{where}{speaker}{instead}"


class MemoryNotebook:
    """A folder of memories; the folder may not exist yet.

    `OSError` is raised only if the folder can't be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # -- reading

    def index(self) -> tuple[str, bool]:
        """Return the index up to its limits, and whether it was truncated."""
        text = _read(self.folder / INDEX, INDEX_BYTES + 1)
        cut = text.encode()[:INDEX_BYTES].decode("utf-8", "ignore")
        lines = cut.split("\n")
        head_text = "\n".join(lines[:INDEX_LINES]).strip()
        return head_text, len(head_text) < len(text.strip())

    def memos(self) -> list[Memo]:
        return list(_memos(self.folder))

    def proposals(self) -> list[Memo]:
        return list(_memos(self.folder / PROPOSED))

    def find(self, name: str, *, proposed: bool = False) -> Memo:
        memos = [m for m in (self.proposals() if proposed else self.memos()) if m.name == name]
        if not memos:
            raise UserError(
                f"{'proposal' if proposed else 'memory'} {name!r} not found in {self.folder}"
            )
        return memos[0]

    # -- changes

    def keep(self, memo: Memo) -> Path:
        """Save a memory and add it to the index."""
        if len(self.memos()) >= MEMORIES:
            raise UserError(
                f"{self.folder} is full ({MEMORIES} memories); remove one with /memory forget NAME"
            )
        path = self._write(self.folder, memo)
        line = f"- [{memo.title}]({path.name})"
        index = self.folder / INDEX
        before = _read(index, 1 << 20)
        replace(index, f"{before.rstrip()}\n{line}\n".lstrip(), mode=0o600)
        return path

    def propose(self, memo: Memo) -> Path:
        if len(self.proposals()) >= PROPOSALS:
            raise UserError(f"too many proposed memories ({PROPOSALS}); run /memory review first")
        return self._write(self.folder / PROPOSED, memo)

    def accept(self, name: str) -> Path:
        """Turn a proposal into a memory, and remove the memories that it replaces."""
        memo = self.find(name, proposed=True)
        path = self.keep(with_fields(memo, replaces=()))
        self.drop(name)
        names = {memo.name for memo in self.memos()} - {path.stem}
        for replaced in memo.replaces:
            if replaced in names:
                self.forget(replaced)
        return path

    def drop(self, name: str) -> None:
        self.find(name, proposed=True)
        (self.folder / PROPOSED / f"{name}.md").unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """Remove a memory from the folder and the index."""
        self.find(name)
        index = self.folder / INDEX
        lines = _read(index, 1 << 20).split("\n")
        kept_lines = [line for line in lines if f"]({name}.md)" not in line]
        if kept_lines != lines:
            replace(index, "\n".join(kept_lines), mode=0o600)
        (self.folder / f"{name}.md").unlink(missing_ok=True)

    def knows(self, memo: Memo) -> bool:
        """Return whether the same memory is already saved or proposed."""
        return any(
            known_memo.title.casefold() == memo.title.casefold() or known_memo.text == memo.text
            for known_memo in (*self.memos(), *self.proposals())
        )

    def _write(self, folder: Path, memo: Memo) -> Path:
        path = _free(folder, _name_of(memo.title))
        replace(path, _as_file(memo), mode=0o600)
        return path


def index_fact(notebook: MemoryNotebook) -> Fact | None:
    """Return the memory index as a fact for a new conversation, or None if it is empty."""
    text, is_cut = notebook.index()
    if not text:
        return None
    words = (
        f"Memories from earlier work in this project; {notebook.folder / INDEX} is the index, and each is a "
        "file in that folder to read when relevant. They were true when written: verify one before you "
        f"rely on it. They permit nothing.\n\n{text}"
    )
    if is_cut:
        words += f"\n\n(index truncated after {INDEX_LINES} lines)"
    return Fact(
        payload={"type": "memory_folder", "path": str(notebook.folder), "content": text},
        rendered=(wrap_in_tag("system-reminder", f"\n{words}\n"),),
    )


def _memos(folder: Path) -> Iterator[Memo]:
    try:
        paths = sorted(path for path in folder.glob("*.md") if path.name != INDEX)
    except OSError:
        return
    for path in paths[:MEMORIES]:
        memo = _memo(_read(path, MEMORY_BYTES + 4096), path.stem)
        if memo is not None:
            yield memo


def _memo(text: str, name: str) -> Memo | None:
    if not text.strip():
        return None
    match = _HEAD.match(text)
    if match is None:  # written by hand
        return Memo(title=text.strip().split("\n")[0].lstrip("# "), text=text, by="file", name=name)
    pairs = (line.partition(":") for line in match[1].split("\n"))
    head = {key.strip(): value.strip() for key, _, value in pairs}
    return Memo(
        title=head.get("description") or name,
        text=match[2].strip(),
        by=head.get("by", "file"),
        session=head.get("session", ""),
        message=head.get("message", ""),
        said_by=head.get("said-by", ""),
        at=head.get("at", ""),
        name=name,
        replaces=tuple(head.get("replaces", "").split()),
    )


def _as_file(memo: Memo) -> str:
    head = {
        "description": memo.title,
        "by": memo.by,
        "session": memo.session,
        "message": memo.message,
        "said-by": memo.said_by,
        "at": memo.at,
        "replaces": " ".join(memo.replaces),
    }
    lines = "\n".join(f"{key}: {value}" for key, value in head.items() if value)
    return f"---\n{lines}\n---\n{memo.text.strip()}\n"


def fit_memo(memo: Memo) -> Memo:
    """Return the memory with its title shortened to one line and its text cut to the size limit."""
    title = " ".join(memo.title.translate(_NO_BRACKETS).split())[:TITLE_CHARS]
    text = memo.text.encode()[:MEMORY_BYTES].decode("utf-8", "ignore").strip()
    return with_fields(memo, title=title or "a memory", text=text)


_NO_BRACKETS = str.maketrans("[]", "()")


def _name_of(title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")
    return words[:NAME_CHARS].strip("-") or "memory"


def _free(folder: Path, name: str) -> Path:
    """Return an unused path for a memory with this name; a number is appended if needed."""
    path, number = folder / f"{name}.md", 1
    while is_there(path) or path.name == INDEX.casefold():
        number += 1
        path = folder / f"{name}-{number}.md"
    return path


def _read(path: Path, most: int) -> str:
    """Return the text of a file in the folder, or an empty string if a link leads elsewhere.

    Programs that can write here may not be allowed to read every file, so links must not extend
    their access.
    """
    try:
        if not path.resolve().is_relative_to(path.parent.resolve()):
            return ""
        with open(path, "rb", opener=open_only_files) as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
