"""A program that lists and searches files like ripgrep, for machines without ripgrep.

It runs in a bare interpreter (`python -I -S`), because a regular expression can run forever and
only a process can be stopped. It imports almost nothing, because imports take half of a search's
time. It takes one argument (`Job.argument`). It exits with 0 if it found something, with 1 if not,
and with 2 and the reason on stderr if it can't search. A test compares it with ripgrep on the
subset described in docs/using/tools.md. The program takes 1.6 times as long as ripgrep over 5,000
small files; `make bench ONLY=tools` accepts 2.5 times.
"""

import marshal
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator

from clew.permissions.patterns import MOST_ALTERNATIVES, compile_ignore_rules
from clew.system.files import open_only_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

VERSION_CONTROL = (".git", ".hg", ".svn", ".jj", ".bzr")
# Larger files are left to ripgrep, which doesn't read them into memory.
FILE_MAX_BYTES = 256 << 20
PIECE_BYTES = 1 << 16
# Links are not followed, and a pipe without a writer must not block.
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The caller keeps less than this, so the size tells it that something is missing.
FOUND_MAX_CHARS = 16 << 20
# The number of files from which another process is worthwhile.
SHARE = 500
MOST_SHARES = 8
SPECIAL = frozenset("\\.^$*+?{}[]|()")


class Job:
    """A search or, without a pattern, a listing. `path` is relative to the working folder.

    If `is_file`, `path` is the name of the file that is passed as the standard input.
    """

    def __init__(
        self,
        *,
        pattern: str | None = None,
        mode: str = "files_with_matches",
        ignore_case: bool = False,
        multiline: bool = False,
        before: int = 0,
        after: int = 0,
        path: str = ".",
        is_file: bool = False,
        globs: Iterable[str] = (),
    ) -> None:
        self.pattern = pattern
        self.mode = mode
        self.ignore_case = ignore_case
        self.multiline = multiline
        self.before = before
        self.after = after
        self.path = path
        self.is_file = is_file
        self.globs = list(globs)

    @property
    def argument(self) -> str:
        return marshal.dumps(vars(self)).hex()

    @property
    def needle(self) -> bytes | None:
        """The bytes that every matching file contains; None unless the pattern is an exact literal."""
        if not self.pattern or self.ignore_case or not SPECIAL.isdisjoint(self.pattern):
            return None
        return self.pattern.encode("utf-8", "surrogateescape")


def main(argument: str) -> int:
    job = Job(**marshal.loads(bytes.fromhex(argument)))
    try:
        names = [job.path] if job.is_file else list(listing(job.path))
        if job.globs:
            wanted = make_chooser(job.globs)
            names = [name for name in names if wanted(name)]
        if job.pattern is None:
            has_matches = write_names(newest_first(names))
        else:
            has_matches = search(job, compiled(job), names)
    except (re.error, ValueError, RecursionError) as error:
        sys.stderr.write(f"invalid pattern: {error}\n")
        return 2
    return 0 if has_matches else 1


def compiled(job: Job) -> re.Pattern[str]:
    flags = re.MULTILINE | (re.IGNORECASE if job.ignore_case else 0)
    return re.compile(job.pattern or "", flags | (re.DOTALL if job.multiline else 0))


def listing(path: str) -> Iterator[str]:
    """Yield the relative names of the regular files that no .gitignore excludes.

    Git lists them if the folder is in a repository.
    """
    names = from_git(path)
    if names is None:
        yield from walk("" if path == "." else path)
    else:
        yield from filter(is_regular, names)


def is_regular(name: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(name).st_mode)
    except OSError:
        return False


def from_git(path: str) -> list[str] | None:
    top = find_repository(os.path.abspath(path))
    if top is None:
        return None
    import subprocess

    from clew.system.config.git_guard import OWN_GIT
    from clew.system.process.programs import find_own_program

    program = find_own_program("git", folder=top)
    if program is None:
        return None
    options = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", path]
    try:
        done = subprocess.run([program, *OWN_GIT[1:], *options], capture_output=True, check=False)
    except OSError:
        return None
    if done.returncode != 0:
        return None
    return sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})


def find_repository(folder: str) -> str | None:
    """Return the top of the git repository around a folder, whose files git can list, or None."""
    top = folder
    while not os.path.lexists(os.path.join(top, ".git")):
        above = os.path.dirname(top)
        if above == top:
            return folder if "GIT_DIR" in os.environ else None
        top = above
    return top


def walk(top: str, above: "tuple[tuple[str, GitIgnoreSpec], ...]" = ()) -> Iterator[str]:
    """Yield the files below a folder that no .gitignore excludes, depth first.

    Each folder's .gitignore applies to everything below the folder.
    """
    try:
        with os.scandir(top or ".") as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    specs = above
    if any(entry.name == ".gitignore" for entry in entries):
        try:
            path = os.path.join(top, ".gitignore")
            with open(path, encoding="utf-8", errors="replace", opener=open_only_files) as file:
                specs = (*above, (top, compile_ignore_rules(file)))
        except OSError:
            pass
    for entry in entries:
        if entry.name in VERSION_CONTROL:
            continue
        name = f"{top}/{entry.name}" if top else entry.name
        if entry.is_dir(follow_symlinks=False):
            if not (specs and is_ignored(f"{name}/", specs)):
                yield from walk(name, specs)
        elif entry.is_file(follow_symlinks=False) and not (specs and is_ignored(name, specs)):
            yield name


def is_ignored(path: str, specs: "tuple[tuple[str, GitIgnoreSpec], ...]") -> bool:
    """Return whether the nearest .gitignore with a matching rule excludes a path."""
    for top, spec in reversed(specs):
        verdict = spec.check_file(path.removeprefix(f"{top}/" if top else "")).include
        if verdict is not None:
            return verdict
    return False


def make_chooser(globs: list[str]) -> Callable[[str], bool]:
    """Return a filter for names that match any of the globs; braces and a leading ! are allowed."""
    lines = [line for glob in globs for line in expand_braces(glob)]
    refused = [line[1:] for line in lines if line.startswith("!")]
    chosen = [line for line in lines if not line.startswith("!")]
    yes, no = compile_ignore_rules(chosen), compile_ignore_rules(refused)
    return lambda name: (not chosen or yes.match_file(name)) and not no.match_file(name)


def expand_braces(glob: str) -> list[str]:
    """Expand `*.{js,ts}` into its alternatives. Raise ValueError above the limit."""
    out: list[str] = []
    waiting = [glob]
    while waiting:
        pattern = waiting.pop()
        match = re.search(r"\{([^{}]*)\}", pattern)
        if match is None:
            out.append(pattern)
            continue
        choices = match[1].split(",")
        waiting += [
            pattern[: match.start()] + choice + pattern[match.end() :] for choice in choices[::-1]
        ]
        if len(out) + len(waiting) > MOST_ALTERNATIVES:
            raise ValueError(f"{glob[:100]} expands to more than {MOST_ALTERNATIVES} names")
    return out


def newest_first(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (-os.lstat(name).st_mtime_ns, name))


def write_names(names: list[str]) -> bool:
    write("".join(f"{name}\0" for name in names))
    return bool(names)


def write(text: str) -> None:
    sys.stdout.buffer.write(os.fsencode(text))


def search(job: Job, pattern: re.Pattern[str], names: list[str]) -> bool:
    if job.mode != "files_with_matches":
        names = sorted(names, key=lambda name: name.split("/"))
    parts = in_parallel(lambda some: search_files(job, pattern, some), shares(names))
    if job.mode == "files_with_matches":
        return write_names(
            newest_first([name for part in parts for name in part.split("\0") if name])
        )
    between = "--\n" if job.mode == "content" and (job.before or job.after) else ""
    write(between.join(filter(None, parts)))
    return any(parts)


def shares(names: list[str]) -> list[list[str]]:
    """Split the names, in order, into one part per processor."""
    count = min(len(names) // SHARE, os.cpu_count() or 1, MOST_SHARES) or 1
    size = -(-len(names) // count)
    return [names[at : at + size] for at in range(0, len(names), size)] or [[]]


def in_parallel(work: Callable[[list[str]], str], parts: list[list[str]]) -> list[str]:
    """Run the work on each part and return the results in order.

    The last part is processed here, the others in forked processes.
    """
    others = [fork_search(work, part) for part in parts[:-1]]
    last = work(parts[-1])
    outputs: list[str] = []
    for child, read_end in others:
        with open(read_end, "rb") as file:
            outputs.append(os.fsdecode(file.read()))
        if os.waitpid(child, 0)[1]:
            raise ValueError("a search process exited unexpectedly")
    return [*outputs, last]


def fork_search(work: Callable[[list[str]], str], part: list[str]) -> tuple[int, int]:
    """Fork a process for one part; return its ID and the end of the pipe with its output."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with open(write_end, "wb") as file:
                file.write(os.fsencode(work(part)))
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    return child, read_end


def search_files(job: Job, pattern: re.Pattern[str], names: list[str]) -> str:
    """Return the matches in the files in ripgrep's format, or only names or counts."""
    needle = job.needle
    lines: list[str] = []
    chars = 0
    for name in names:
        if chars > FOUND_MAX_CHARS:
            break
        text = text_of(name, needle, is_open=job.is_file)
        if text is None:
            continue
        rows = matching(job, pattern, text, 1 if job.mode == "files_with_matches" else sys.maxsize)
        if not rows:
            continue
        if job.mode == "files_with_matches":
            lines.append(f"{name}\0")
        elif job.mode == "count":
            total = sum(1 for _ in pattern.finditer(text)) if job.multiline else len(rows)
            lines.append(f"{name}\0{total}\n")
        else:
            if lines and (job.before or job.after):
                lines.append("--\n")
            lines.append("".join(shown_rows(job, name, text, rows)))
            chars += len(lines[-1])
    return "".join(lines)


def text_of(name: str, needle: bytes | None, *, is_open: bool) -> str | None:
    """Return a file's text, or None if it is unreadable, binary, too large or can't match."""
    try:
        descriptor = os.dup(0) if is_open else os.open(name, OPEN)
    except OSError:
        return None
    try:
        data = os.read(descriptor, PIECE_BYTES)
        if len(data) == PIECE_BYTES:
            data = rest_of(descriptor, data)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if needle is not None and needle not in data:
        return None
    if b"\0" in data or len(data) > FILE_MAX_BYTES:
        return None
    return data.decode("utf-8", "surrogateescape")


def rest_of(descriptor: int, begin: bytes) -> bytes:
    pieces, size = [begin], len(begin)
    while size <= FILE_MAX_BYTES and (piece := os.read(descriptor, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def matching(job: Job, pattern: re.Pattern[str], text: str, most: int = sys.maxsize) -> list[int]:
    """Return the numbers of the matching lines, counted from 0."""
    rows: list[int] = []
    at = line = counted = 0
    while len(rows) < most and (match := pattern.search(text, at)):
        begin = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.start())
        end = len(text) if end < 0 else end
        if begin == len(text):
            break
        line += text.count("\n", counted, begin)
        counted = begin
        if job.multiline:
            last = line + text.count("\n", begin, max(match.start(), match.end() - 1))
            rows += [row for row in range(line, last + 1) if not rows or row > rows[-1]]
            at = max(match.end(), match.start() + 1)
            at = max(at, text.find("\n", match.end() - 1) + 1) if match.end() > end else at
            if at > len(text):
                break
            continue
        # A match across a line ending is ignored; the line alone must match.
        if match.end() <= end or pattern.search(text[begin:end]):
            rows.append(line)
        at = end + 1
        if at > len(text):
            break
    return rows


def shown_rows(job: Job, name: str, text: str, rows: list[int]) -> Iterator[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    wanted = set(rows)
    last = -1
    for row in rows:
        begin, end = max(last + 1, row - job.before), min(len(lines), row + job.after + 1)
        if last >= 0 and begin > last + 1 and (job.before or job.after):
            yield "--\n"
        for number in range(begin, end):
            mark = ":" if number in wanted else "-"
            yield f"{name}\0{number + 1}{mark}{lines[number]}\n"
        last = max(last, end - 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
