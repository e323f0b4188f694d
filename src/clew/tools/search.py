"""A program that lists and searches files where ripgrep is not there, with ripgrep's output.

Runs in an interpreter of its own, because a regular expression can take for ever and only a process
can be stopped. Takes one JSON argument (`Job`); ends with 0 if it found something, 1 if not, 2 with
the reason on stderr if it cannot search. Held to ripgrep's results by a test, on the subset that
docs/tools.md names.
"""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

VERSION_CONTROL = (".git", ".hg", ".svn", ".jj", ".bzr")
# Larger files are left to ripgrep, which need not hold them.
FILE_MAX_BYTES = 256 << 20


class Job(Struct, kw_only=True):
    """`paths` are below the working folder, `.` for all of it. No pattern: list the files."""

    pattern: str | None = None
    mode: str = "files_with_matches"
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    path: str = "."
    globs: list[str] = []


def main(argument: str) -> int:
    job = msgspec.json.decode(argument, type=Job)
    try:
        wanted = chooser(job.globs)
        names = [name for name in listing(job.path) if wanted(name)]
        if job.pattern is None:
            found = write_names(newest_first(names))
        else:
            found = search(job, compiled(job), names)
    except (re.error, ValueError, RecursionError) as error:
        sys.stderr.write(f"the pattern is not one this search understands: {error}\n")
        return 2
    return 0 if found else 1


def compiled(job: Job) -> re.Pattern[str]:
    flags = re.MULTILINE | (re.IGNORECASE if job.ignore_case else 0)
    return re.compile(job.pattern or "", flags | (re.DOTALL if job.multiline else 0))


def listing(path: str) -> Iterator[str]:
    """Names of regular files that no .gitignore excludes, relative, by git where it knows them."""
    if path != "." and not os.path.isdir(path):
        yield path
        return
    names = from_git(path)
    for name in walk(path) if names is None else names:
        plain = os.path.normpath(name)
        if is_regular(plain):
            yield plain


def is_regular(name: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(name).st_mode)
    except OSError:
        return False


def from_git(path: str) -> list[str] | None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", path]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    if done.returncode != 0:
        return None
    return sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})


def walk(top: str, above: "tuple[tuple[str, GitIgnoreSpec], ...]" = ()) -> Iterator[str]:
    """Depth first; the .gitignore of each folder holds for all below it."""
    try:
        with os.scandir(top) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    specs = above
    if any(entry.name == ".gitignore" for entry in entries):
        try:
            with open(os.path.join(top, ".gitignore"), encoding="utf-8", errors="replace") as file:
                specs = (*above, (top, ignore_rules(file)))
        except OSError:
            pass
    for entry in entries:
        folder = entry.is_dir(follow_symlinks=False)
        if entry.name in VERSION_CONTROL or ignored(
            f"{entry.path}/" if folder else entry.path, specs
        ):
            continue
        if folder:
            yield from walk(entry.path, specs)
        else:
            yield entry.path


def ignored(path: str, specs: "tuple[tuple[str, GitIgnoreSpec], ...]") -> bool:
    """The nearest .gitignore that has an opinion decides."""
    for top, spec in reversed(specs):
        verdict = spec.check_file(path.removeprefix(f"{top}/")).include
        if verdict is not None:
            return verdict
    return False


def ignore_rules(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Lines of a .gitignore; what reads them is loaded here, for a turn without a search needs none."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def chooser(globs: list[str]) -> Callable[[str], bool]:
    """Whether a name is wanted: by any of the globs, braces and a leading ! allowed."""
    lines = [line for one in globs for line in braces(one)]
    refused = [line[1:] for line in lines if line.startswith("!")]
    chosen = [line for line in lines if not line.startswith("!")]
    yes, no = ignore_rules(chosen), ignore_rules(refused)
    return lambda name: (not chosen or yes.match_file(name)) and not no.match_file(name)


def braces(glob: str) -> list[str]:
    """`*.{js,ts}` as its alternatives."""
    match = re.search(r"\{([^{}]*)\}", glob)
    if match is None:
        return [glob]
    return [
        whole
        for choice in match[1].split(",")
        for whole in braces(glob[: match.start()] + choice + glob[match.end() :])
    ]


def newest_first(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (-os.lstat(name).st_mtime_ns, name))


def write_names(names: list[str]) -> bool:
    write("".join(f"{name}\0" for name in names))
    return bool(names)


def write(text: str) -> None:
    sys.stdout.buffer.write(os.fsencode(text))


def search(job: Job, pattern: re.Pattern[str], names: list[str]) -> bool:
    if job.mode == "files_with_matches":
        return write_names(newest_first([name for name in names if has_match(job, pattern, name)]))
    found = False
    for name in sorted(names, key=lambda name: name.split("/")):
        text = text_of(name)
        rows = matching(job, pattern, text) if text is not None else []
        if not rows or text is None:
            continue
        if job.mode == "count":
            total = sum(1 for _ in pattern.finditer(text)) if job.multiline else len(rows)
            write(f"{name}\0{total}\n")
        else:
            if found and (job.before or job.after):
                write("--\n")
            write_rows(job, name, text, rows)
        found = True
    return found


def has_match(job: Job, pattern: re.Pattern[str], name: str) -> bool:
    text = text_of(name)
    return text is not None and bool(matching(job, pattern, text, most=1))


def text_of(name: str) -> str | None:
    """None for what cannot be read or is no text."""
    try:
        with open(name, "rb") as file:
            data = file.read(FILE_MAX_BYTES + 1)
    except OSError:
        return None
    if b"\0" in data or len(data) > FILE_MAX_BYTES:
        return None
    return data.decode("utf-8", "surrogateescape")


def matching(job: Job, pattern: re.Pattern[str], text: str, most: int = sys.maxsize) -> list[int]:
    """The numbers of the lines that match, counted from 0."""
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
        # A match over a line's end is none; the line alone decides.
        if match.end() <= end or pattern.search(text[begin:end]):
            rows.append(line)
        at = end + 1
        if at > len(text):
            break
    return rows


def write_rows(job: Job, name: str, text: str, rows: list[int]) -> None:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    wanted = set(rows)
    last = -1
    for row in rows:
        begin, end = max(last + 1, row - job.before), min(len(lines), row + job.after + 1)
        if last >= 0 and begin > last + 1 and (job.before or job.after):
            write("--\n")
        for number in range(begin, end):
            mark = ":" if number in wanted else "-"
            write(f"{name}\0{number + 1}{mark}{lines[number]}\n")
        last = max(last, end - 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
