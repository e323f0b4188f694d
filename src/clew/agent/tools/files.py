"""Read files for tools through one open descriptor each, and replace files atomically."""

import os
import secrets
import stat
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.tools.base import ToolContext, ToolError, ToolSession, locate, was_decided
from clew.agent.tools.read_files import Content, ReadRecord
from clew.core.nearest import find_nearest
from clew.system.files import FOLDER, NOT_REGULAR, is_there, open_without_links

NOT_READ = "was not read in this session"
CHANGED = "has changed since it was read"
NO_TEXT_FILE = "is not a text file"

# Decodes text (its encoding, byte order mark and line endings) and encodes it back to the same
# bytes.


MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
LOOK_BYTES = 8192
# Bytes that don't occur in text in an eight-bit encoding; tab, line endings, form feed and escape
# do.
NOT_TEXT = bytes(set(range(32)) - {9, 10, 12, 13, 27})


class FileText(Struct, frozen=True, kw_only=True):
    """A file's text, and the properties needed to write it back unchanged."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def is_crlf(self) -> bool:
        return is_crlf(self.text)

    def encode(self, text: str) -> bytes:
        """Encode new text for this file, with the file's encoding and byte order mark.

        Raise UnicodeEncodeError if the encoding lacks one of the characters.
        """
        return self.mark + text.encode(self.encoding)


def is_binary(start: bytes) -> bool:
    return len(start.translate(None, NOT_TEXT)) != len(start)


def decode(data: bytes) -> FileText | None:
    """Decode a file's text; return None for binary data."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
            return FileText(text=text, encoding=encoding, mark=mark)
    if is_binary(data[:LOOK_BYTES]):
        return None
    try:
        return FileText(text=data.decode("utf-8"))
    except UnicodeDecodeError:
        # Latin-1 maps every byte to a character and back.
        return FileText(text=data.decode("latin-1"), encoding="latin-1")


def is_crlf(text: str) -> bool:
    """Return whether every line ends in CRLF."""
    ends = text.count("\n")
    return ends > 0 and text.count("\r\n") == ends


def crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def lines_of(text: str) -> list[str]:
    """Return the lines as editors and grep count them; the last one need not end with LF."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))


# Larger files are read in pieces, and are neither cached nor hashed.
WHOLE_MAX_BYTES = 10 << 20
EDIT_MAX_BYTES = 64 << 20


class FileSnapshot(Struct, frozen=True, kw_only=True):
    """A regular file at one point in time, under its real path."""

    path: Path
    data: bytes
    status: os.stat_result
    sha256: bytes


def open_regular(path: Path) -> tuple[int, os.stat_result]:
    """Open a regular file for reading. Raise ToolError if that is impossible."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        descriptor = open_decided(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolError(f"File not found: {path}.{suggestion(path)}") from None
    except OSError as error:
        raise ToolError(f"Can't open {path}: {error.strerror}.") from None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path} is a folder.", "Use Glob or LS to list it.")
    raise ToolError(f"{path} {NOT_REGULAR}.")


def open_decided(path: Path, flags: int) -> int:
    """Open the file on which permissions decided, even if the path now leads to another file."""
    if was_decided(path):
        return open_without_links(str(locate(path)), flags)
    return os.open(path, flags)


def suggestion(path: Path) -> str:
    """Suggest a file with a similar name in the same folder."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for _, entry in zip(range(5000), entries, strict=False)]
    except OSError:
        return (
            f" Its folder {path.parent} does not exist either." if not is_there(path.parent) else ""
        )
    by_fold = {name.casefold(): name for name in names}
    near = find_nearest(path.name.casefold(), by_fold, cutoff=0.7)
    return f" Did you mean {path.parent / by_fold[near]}?" if near else ""


def read_all(descriptor: int, size: int) -> bytes:
    """Read an entire file, even one that is growing."""
    pieces: list[bytes] = []
    while piece := os.read(descriptor, max(size + 1, 65536)):
        pieces.append(piece)
        size = 0
    return b"".join(pieces)


def take(path: Path, max_bytes: int) -> FileSnapshot:
    descriptor, status = open_regular(path)
    try:
        if status.st_size > max_bytes:
            raise ToolError(
                f"{path} has {status.st_size:,} bytes; this tool accepts at most {max_bytes:,}.",
                "Use a command (sed, a script) with Bash.",
            )
        data = read_all(descriptor, status.st_size)
    finally:
        os.close(descriptor)
    return FileSnapshot(path=locate(path), data=data, status=status, sha256=sha256(data).digest())


def take_known(path: Path, session: ToolSession) -> FileSnapshot:
    """Return the file; raise ToolError unless the model has read its current content."""
    now = take(path, EDIT_MAX_BYTES)
    unsaved = session.files.unsaved.get(str(now.path))
    if unsaved is not None:
        now = replace(now, data=unsaved, sha256=sha256(unsaved).digest())
    record = session.files.ledger.get(str(now.path))
    if record is None:
        raise ToolError(f"{path} {NOT_READ}.", "Read it first, then try again.")
    if not record.same_file_state(now.status.st_size, now.status.st_mtime_ns, now.sha256):
        raise ToolError(
            f"{path} {CHANGED} (by the user, a tool or a command).",
            "Read it again, then retry.",
        )
    return now


def note(ctx: ToolContext, snapshot: FileSnapshot, ranges: tuple[tuple[int, int], ...]) -> None:
    """Record in the ledger that the model has seen a file, and cache its bytes."""
    note_seen(ctx.session, snapshot, ranges, ctx.message_uuid)


def note_seen(
    session: ToolSession,
    snapshot: FileSnapshot,
    ranges: tuple[tuple[int, int], ...],
    message_uuid: str,
) -> None:
    path = str(snapshot.path)
    session.files.ledger.note(
        ReadRecord(
            path=path,
            size=len(snapshot.data),
            mtime_ns=snapshot.status.st_mtime_ns,
            sha256=snapshot.sha256,
            ranges=ranges,
            message_uuid=message_uuid,
        )
    )
    session.files.contents.put(
        path,
        Content(data=snapshot.data, mtime_ns=snapshot.status.st_mtime_ns, sha256=snapshot.sha256),
    )


def put(path: Path, data: bytes, replaced: os.stat_result | None) -> FileSnapshot:
    """Write a file atomically: write a temporary file next to it, sync it and rename it.

    `path` is a real path; a link in it is an error. `replaced` is the state of the file to replace,
    which must not have changed. If it is None, the file must not exist. Raise ToolError if the file
    can't be written.
    """
    try:
        with UnfinishedFile(path, 0o600 if replaced else 0o666) as beside:
            beside.write(data)
            if replaced is not None:
                keep_attributes(path, beside, replaced)
            os.fsync(beside.descriptor)
            status = os.fstat(beside.descriptor)
            if replaced is None:
                beside.become_new()
            else:
                refuse_if_changed(path, replaced, beside.folder)
                beside.become()
    except FileExistsError:
        raise ToolError(
            f"{path} was created in the meantime.", "Read it first, then try again."
        ) from None
    except OSError as error:
        raise ToolError(f"Can't write {path}: {error.strerror}.") from None
    return FileSnapshot(path=path, data=data, status=status, sha256=sha256(data).digest())


def refuse_if_changed(path: Path, was: os.stat_result, folder: int) -> None:
    try:
        now = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise ToolError(f"{path} was removed in the meantime. Nothing was written.") from None
    if state(now) != state(was):
        raise ToolError(
            f"{path} was changed in the meantime. Nothing was written.", "Read it again."
        )


def state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def keep_attributes(path: Path, beside: "UnfinishedFile", was: os.stat_result) -> None:
    """Copy the replaced file's owner, extended attributes (including access lists) and mode."""
    descriptor = beside.descriptor
    if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(descriptor, was.st_uid, was.st_gid)
    if sys.platform == "linux":
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            old = os.open(path.name, flags, dir_fd=beside.folder)
            try:
                for name in os.listxattr(old):
                    with suppress(OSError):
                        os.setxattr(descriptor, name, os.getxattr(old, name))
            finally:
                os.close(old)
    # The mode comes last, because a change of owner clears the set-id bits.
    os.fchmod(descriptor, stat.S_IMODE(was.st_mode))


class UnfinishedFile:
    """A file that is being written.

    Where the system allows it, the file has no name yet, so a crash leaves no trace. `folder` is a
    descriptor, so that no link can lead to another folder.
    """

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path
        self._name = f".{path.name[:80]}.{secrets.token_hex(6)}.clew"
        self._mode = mode
        self._named = False
        self.folder = -1
        self.descriptor = -1

    def __enter__(self) -> "UnfinishedFile":
        self.folder = open_without_links(str(self._path.parent), FOLDER)
        try:
            self._create()
        except BaseException:
            os.close(self.folder)
            raise
        return self

    def _create(self) -> None:
        if sys.platform == "linux":
            with suppress(OSError):
                flags = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
                self.descriptor = os.open(".", flags, self._mode, dir_fd=self.folder)
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.descriptor = os.open(self._name, flags, self._mode, dir_fd=self.folder)
        self._named = True

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        if self._named:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self.folder)
        os.close(self.folder)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]

    def become(self) -> None:
        self._link(self._name)
        self._named = True
        os.replace(self._name, self._path.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        self._named = False

    def become_new(self) -> None:
        """Take the final name as a new file. Raise FileExistsError if the name is already taken."""
        self._link(self._path.name)

    def _link(self, target: str) -> None:
        if self._named:
            if target != self._name:
                os.link(self._name, target, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        else:
            source = f"/proc/self/fd/{self.descriptor}"
            os.link(source, target, dst_dir_fd=self.folder, follow_symlinks=True)
