"""Memory files: discovery, order of precedence and contents.

Lowest precedence first: the managed files, the user's own, then those of every folder from the file
system root down to the working folder (AGENTS.md, CLAUDE.md, `.claude/CLAUDE.md`, rules,
CLAUDE.local.md). They are concatenated in this order. A file with `@override` drops all earlier
ones except the managed ones. Files below the working folder are loaded when a file in their folder
is read.

This module must never import a file outside the project without approval, read a file twice, or
follow an import cycle.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.context.directives import (
    Directed,
    expand_alternatives,
    find_imports,
    read_directives,
)
from clew.permissions.patterns import compile_path_rules
from clew.permissions.protected import why_protected_read
from clew.permissions.request import ResolvedPath
from clew.permissions.rules import Behavior, PermissionRule, RuleSet
from clew.permissions.session_rules import CurrentRules
from clew.system.config.layers import OF_THE_FOLDER
from clew.system.config.load import trusts
from clew.system.config.paths import Places, find_places
from clew.system.files import is_file, is_of_user, is_there

NOT_SENT = "is not sent to the model"

IS_LINK = "it is a symlink to"

# Memory files that must not be sent to the model, and the reasons.


RESTRAINING: tuple[Behavior, ...] = ("deny", "ask")
CONFIGURATION = ".claude"


class MemoryGate:
    """Decides for each memory file, before it is read, whether it may be sent to the model.

    Each file that is refused because its project is not trusted is reported once.
    """

    def __init__(self, standing: Callable[[], CurrentRules]) -> None:
        self._standing = standing
        self._news: dict[str, None] = {}
        self._told: set[str] = set()

    def refusal(self, path: Path, root: Path, layer: "Layer") -> str | None:
        """Return why a file may not be sent, or None if it may.

        `root` is the project's folder. A reason that the user should see is also kept as news.
        """
        if layer == "managed":
            return None
        standing = self._standing()
        if layer not in standing.sources:
            return f"--setting-sources does not include {layer}"
        resolved = standing.resolve(str(path))
        rule = _restraint(standing.rules, resolved, own=layer == "user")
        if rule is not None:
            return rule.says
        if layer == "user":
            return None
        if not resolved.known:
            return "its real path can't be determined"
        why = (
            why_protected_read(resolved)
            or _leads_out(standing, resolved, path, root)
            or _is_of_another_user(path, root)
        )
        if why is not None:
            self._news[f"{path} {NOT_SENT}: {why}"] = None
        return why

    def refusal_of_link(self, path: Path, root: Path, layer: "Layer") -> str | None:
        """Return why a skill, command or agent file may not be sent, or None if it may.

        Only symlinks are checked.
        """
        return None if os.path.realpath(path) == str(path) else self.refusal(path, root, layer)

    def news(self) -> tuple[str, ...]:
        """Return a one-sentence notice about the files refused since the last call, if any."""
        new_lines = [line for line in self._news if line not in self._told]
        self._told.update(new_lines)
        if not new_lines:
            return ()
        suffix = (
            f" (and {len(new_lines) - 1} more; run clew memory explain)"
            if len(new_lines) > 1
            else ""
        )
        return (new_lines[0] + suffix,)


def _restraint(rules: RuleSet, path: ResolvedPath, *, own: bool) -> PermissionRule | None:
    rule = _first(rules, path)
    if rule is None or not own or rule.source.scope not in OF_THE_FOLDER:
        return rule
    of_others = [rule for rule in rules.rules if rule.source.scope not in OF_THE_FOLDER]
    return _first(RuleSet(of_others, anchors=rules.anchors), path)


def _first(rules: RuleSet, path: ResolvedPath) -> PermissionRule | None:
    matches = (
        rules.paths[behavior, "read"].find(path, "", untrusted=False) for behavior in RESTRAINING
    )
    return next((rule for rule in matches if rule is not None), None)


def _leads_out(
    standing: CurrentRules, resolved: ResolvedPath, path: Path, root: Path
) -> str | None:
    folder = _home_of(path, root)
    if Path(resolved.real).is_relative_to(os.path.realpath(folder)):
        return None
    if trusts(standing.places, root):
        return None
    return f"{IS_LINK} {resolved.real}, and {root} is not trusted"


def _is_of_another_user(path: Path, root: Path) -> str | None:
    """Return the reason to withhold a file above the project that another user owns, else None."""
    if path.is_relative_to(root) or is_of_user(path):
        return None
    return f"it belongs to another user and is outside {root}"


def _home_of(path: Path, root: Path) -> Path:
    """Return the folder that a memory file belongs to.

    This is the project's folder, or the parent folder that has its own configuration.
    """
    if path.is_relative_to(root):
        return root
    parents = path.parents
    configured = next((parent for parent in parents if parent.name == CONFIGURATION), None)
    return parents[0] if configured is None else configured.parent


Layer: TypeAlias = Literal["managed", "user", "project", "local"]

MAX_DEPTH = 4
MAX_FILE_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 1024 * 1024
MAX_RULES = 200
# A file that was changed within this time of the last read may change again with the same size and
# mtime.
UNSETTLED_NS = 2_000_000_000


class MemoryFile(Struct, frozen=True, kw_only=True):
    """A loaded memory file; `paths` contains the patterns that limit a rule (empty: all files)."""

    path: str
    layer: Layer
    text: str
    sha256: str
    imported_by: str | None = None
    paths: tuple[str, ...] = ()


class Skipped(Struct, frozen=True, kw_only=True):
    """A memory file that was not loaded, and the reason."""

    path: str
    why: str


class Memory(Struct, frozen=True, kw_only=True):
    """The result of loading: files in order of precedence, path-scoped rules, and skipped files."""

    files: tuple[MemoryFile, ...] = ()
    rules: tuple[MemoryFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    # Imports from outside the project that need the user's approval.
    to_approve: tuple[str, ...] = ()


# Returns why a file may not be sent, from its path, the project's folder and its layer.
Refuses: TypeAlias = Callable[[Path, Path, Layer], str | None]


def _refuses_none(_: Path, __: Path, ___: Layer) -> str | None:
    return None


class Sources(Struct, frozen=True, kw_only=True):
    """The locations of memory files.

    Imports of files inside `root`, the project's folder, need no approval.
    """

    cwd: Path
    root: Path
    home: Path
    config_home: Path
    managed_folders: tuple[Path, ...] = ()
    refuses: Refuses = _refuses_none


def find_sources(environ: dict[str, str], cwd: Path, gate: MemoryGate) -> Sources:
    """Return the memory file locations for this environment and folder."""
    places = find_places(environ, cwd)
    return Sources(
        cwd=cwd,
        root=project_of(places),
        home=places.home,
        config_home=places.config_home,
        managed_folders=places.managed_folders,
        refuses=gate.refusal,
    )


def project_of(places: Places) -> Path:
    """Return the project's folder: the repository root, else the folder that has settings."""
    return _repository_of(places.cwd, places.home) or places.root


def _repository_of(cwd: Path, home: Path) -> Path | None:
    for folder in (cwd, *cwd.parents):
        if is_there(folder / ".git"):
            return folder
        if folder == home:
            break
    return None


class _Known(Struct, frozen=True):
    stamp: tuple[int, int, int]
    seen_ns: int
    sha256: str
    text: str


class FileCache:
    """File contents by path.

    A file is read again if its mtime or size changed or may have changed.
    """

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._known: dict[str, _Known] = {}
        self._now_ns = now_ns
        self.reads = 0

    def read(self, path: Path) -> tuple[str, str]:
        """Return the text and its SHA-256. Raise OSError if the file can't be read."""
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        entry = self._known.get(str(path))
        is_settled = entry is not None and entry.seen_ns - stamp[0] > UNSETTLED_NS
        if entry is None or entry.stamp != stamp or not is_settled:
            data = path.read_bytes()
            self.reads += 1
            text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
            digest = hashlib.sha256(data).hexdigest()
            entry = self._known[str(path)] = _Known(stamp, self._now_ns(), digest, text)
        return entry.text, entry.sha256


Approved: TypeAlias = Callable[[Path], bool]


def _approves_none(_: Path) -> bool:
    return False


def load_memory(
    sources: Sources, cache: FileCache, *, approved: Approved = _approves_none
) -> Memory:
    """Load all memory that applies at the start of a session with these sources."""
    loader = _Loader(sources, cache, approved)
    for folder in sources.managed_folders:
        loader.folder_of(folder, "managed")
    loader.folder_of(sources.config_home, "user")
    for folder in [*reversed(sources.cwd.parents), sources.cwd]:
        loader.project_folder(folder)
    return loader.memory()


def load_nested(
    sources: Sources,
    cache: FileCache,
    memory: Memory,
    touched: Path,
    *,
    approved: Approved = _approves_none,
) -> list[MemoryFile]:
    """Load the memory that applies once the file `touched` is read.

    This includes the memory files in the folders between that file and the working folder, and the
    rules whose paths match the file. The caller keeps track of what was already sent.
    """
    loader = _Loader(sources, cache, approved)
    loader.know(memory)
    if touched.is_relative_to(sources.cwd):
        below = [p for p in reversed(touched.parents) if p.is_relative_to(sources.cwd)]
        for folder in below[1:]:
            loader.project_folder(folder)
    nested_memory = loader.memory()
    rules = [
        rule
        for rule in (*memory.rules, *nested_memory.rules)
        if matches(rule.paths, touched, sources.root)
    ]
    return [*nested_memory.files, *rules]


def matches(paths: Sequence[str], touched: Path, root: Path) -> bool:
    """Return whether a file matches any of the patterns, relative to the project's folder."""
    if not touched.is_relative_to(root):
        return False
    patterns = [alternative for pattern in paths for alternative in expand_alternatives(pattern)]
    return compile_path_rules(patterns).match_file(touched.relative_to(root).as_posix())


class _Loader:
    """Collects memory files in order of precedence, each of them once."""

    def __init__(self, sources: Sources, cache: FileCache, approved: Approved) -> None:
        self._sources = sources
        self._cache = cache
        self._approved = approved
        self._files: list[MemoryFile] = []
        self._rules: list[MemoryFile] = []
        self._skipped: list[Skipped] = []
        self._to_approve: dict[str, None] = {}
        self._inodes: set[tuple[int, int]] = set()
        # Each AGENTS.md, by the digest of its content.
        self._agents: dict[str, Path] = {}
        self._bytes = 0

    def know(self, memory: Memory) -> None:
        """Record which files are already loaded, so that they are not loaded again."""
        for file in (*memory.files, *memory.rules):
            try:
                stat = Path(file.path).stat()
            except OSError:
                continue
            self._inodes.add((stat.st_dev, stat.st_ino))

    def memory(self) -> Memory:
        return Memory(
            files=tuple(self._files),
            rules=tuple(self._rules),
            skipped=tuple(self._skipped),
            to_approve=tuple(self._to_approve),
        )

    def folder_of(self, folder: Path, layer: Layer) -> None:
        """Load a configuration folder: its CLAUDE.md and its rules."""
        self._take(folder / "CLAUDE.md", layer)
        self._take_rules(folder / "rules", layer)

    def project_folder(self, folder: Path) -> None:
        own = folder / ".claude"
        # Before CLAUDE.md, so that instructions for clew and similar agents have precedence.
        self._take(folder / "AGENTS.md", "project")
        self._take(folder / "CLAUDE.md", "project")
        if own != self._sources.config_home:
            self.folder_of(own, "project")
        self._take(folder / "CLAUDE.local.md", "local")

    def _take_rules(self, folder: Path, layer: Layer) -> None:
        paths = sorted(_markdown(folder))
        for path in paths[:MAX_RULES]:
            self._take(path, layer)
        for path in paths[MAX_RULES:]:
            self._skip(path, f"exceeds the limit of {MAX_RULES} rule files in {folder}")

    def _take(
        self,
        path: Path,
        layer: Layer,
        *,
        by: Path | None = None,
        depth: int = 0,
        paths: tuple[str, ...] = (),
    ) -> None:
        """Add a file and, after it, its imports.

        A missing file is reported only if another file imports it. Imports of a rule are limited to
        the rule's `paths` too.
        """
        try:
            stat = path.stat()
            if not is_file(path):
                return
            if (stat.st_dev, stat.st_ino) in self._inodes:
                self._skip(path, "already loaded")
                return
            why = self._sources.refuses(path, self._sources.root, layer)
            if why is not None:
                self._skip(path, why)
                return
            if stat.st_size > MAX_FILE_BYTES:
                limit = MAX_FILE_BYTES >> 10
                self._skip(path, f"too large ({stat.st_size:,} bytes; the limit is {limit} KiB)")
                return
            if self._bytes + stat.st_size > MAX_TOTAL_BYTES:
                limit = MAX_TOTAL_BYTES >> 10
                self._skip(path, f"exceeds the limit of {limit:,} KiB for all memory files")
                return
            text, digest = self._cache.read(path)
        except FileNotFoundError:
            if by is not None:
                self._skip(path, f"imported by {by} but not found")
            return
        except OSError as error:
            self._skip(path, f"can't be read: {error.strerror or type(error).__name__}")
            return
        self._inodes.add((stat.st_dev, stat.st_ino))
        # Many projects keep AGENTS.md and CLAUDE.md as copies of each other.
        twin = self._agents.get(digest) if path.name == "CLAUDE.md" else None
        if twin is not None:
            self._skip(path, f"same content as {twin}")
            return
        if path.name == "AGENTS.md":
            self._agents[digest] = path
        self._bytes += stat.st_size
        content = read_directives(text)
        if not content.paths:
            content = replace(content, paths=paths)
        self._add(path, layer, content, digest, by)
        for name in find_imports(content.text):
            self._import(path, name, layer, depth + 1, content.paths)

    def _add(
        self, path: Path, layer: Layer, content: Directed, digest: str, by: Path | None
    ) -> None:
        file = MemoryFile(
            path=str(path),
            layer=layer,
            text=content.text,
            sha256=digest,
            imported_by=None if by is None else str(by),
            paths=content.paths,
        )
        if content.paths:
            self._rules.append(file)
            return
        if content.stance == "override":
            for silent in self._files:
                if silent.layer != "managed":
                    self._skip(Path(silent.path), f"overridden by {path}")
            self._files = [f for f in self._files if f.layer == "managed"]
        if content.text:
            self._files.append(file)

    def _import(
        self, by: Path, name: str, layer: Layer, depth: int, paths: tuple[str, ...]
    ) -> None:
        path = Path(os.path.normpath(by.parent / _expanded(name, self._sources.home)))
        if depth > MAX_DEPTH:
            self._skip(path, f"imported by {by}, more than {MAX_DEPTH} levels deep")
        elif layer in ("managed", "user") or self._is_inside(path) or self._approved(path):
            self._take(path, layer, by=by, depth=depth, paths=paths)
        elif is_file(path):
            self._to_approve[str(path)] = None
            self._skip(path, f"imported by {by}, but outside the project and not approved")

    def _is_inside(self, path: Path) -> bool:
        """Return whether the file that a path leads to is in the project."""
        root = self._sources.root.resolve()
        return path.resolve().is_relative_to(root)

    def _skip(self, path: Path, why: str) -> None:
        self._skipped.append(Skipped(path=str(path), why=why))


def _markdown(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(where) / name for name in names if name.endswith(".md"))


def _expanded(name: str, home: Path) -> Path:
    if name == "~" or name.startswith("~/"):
        return home / name[2:]
    return Path(name)


def in_order(files: Sequence[MemoryFile]) -> str:
    """Return the files' contents for the model, each under a heading with its path and layer."""
    return "\n\n".join(f"Contents of {f.path} ({LAYERS[f.layer]}):\n\n{f.text}" for f in files)


LAYERS: dict[Layer, str] = {
    "managed": "the organization's instructions",
    "user": "the user's own instructions for all projects",
    "project": "project instructions",
    "local": "the user's own instructions for this project",
}
