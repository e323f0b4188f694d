"""Fetch a plugin or a marketplace: copy a folder, clone a repository, or unpack a package.

Nothing that is fetched is executed: no git hooks, no submodules, and only the usual transports.
"""

import asyncio
import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from clew.agent.subagents.worktree import Git
from clew.core.messages.errors import UserError
from clew.parts.plugins.manifest import NPM, PluginSource
from clew.system.files import is_folder, is_link, make_private
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

# A plugin published as an npm package: npm downloads the archive, and clew unpacks it.


TIMEOUT_S = 120.0
MAX_BYTES = 256 << 20
MAX_FILES = 20_000
# The limit for the data between two files: headers, and members that are not files.
BETWEEN_BYTES = 1 << 20


async def unpacked(source: PluginSource, draft: Path, environ: Mapping[str, str]) -> None:
    """Download an npm package and unpack its files at `draft`, which must not exist yet."""
    folder = draft.with_name("archive")
    folder.mkdir()
    launcher = Launcher()
    try:
        await packed(launcher, source, folder, environ)
    finally:
        await launcher.aclose()
    archives = sorted(folder.glob("*.tgz"))
    if not archives:
        raise UserError(f"{source}: npm returned no archive")
    unpack(archives[0], draft, str(source))


async def packed(
    launcher: Launcher, source: PluginSource, folder: Path, environ: Mapping[str, str]
) -> None:
    output, complained = ProcessOutput(keep_bytes=2000), ProcessOutput(keep_bytes=2000)
    wanted = source.url.removeprefix(NPM) + (f"@{source.ref}" if source.ref else "")
    argv = ["npm", "pack", "--ignore-scripts", "--pack-destination", str(folder)]
    argv += [f"--registry={source.registry}"] if source.registry else []
    try:
        ended = await run(
            launcher,
            [*argv, "--", wanted],
            cwd=str(folder),
            env=dict(environ),
            stdout=output,
            stderr=complained,
            timeout_s=TIMEOUT_S,
        )
    except OSError as error:
        raise UserError(f"{source}: npm is required but cannot be run: {error.strerror}") from None
    if ended.timed_out or ended.exit.code != 0:
        lines = bytes(complained.head).decode("utf-8", "replace").splitlines()
        why = next((line for line in lines if line.strip()), "no error message")
        raise UserError(f"{source}: npm pack failed: {why}")


class _Unfolded(gzip.GzipFile):
    """Decompresses an archive, and fails if it grows too large.

    One limit is for the entire archive, another for the data between two of its files.
    """

    left = MAX_BYTES
    near = BETWEEN_BYTES

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.left -= len(data)
        self.near -= len(data)
        if self.left < 0 or self.near < 0:
            raise UserError("too large for a plugin")
        return data


def unpack(archive: Path, into: Path, what: str) -> None:
    """Extract the files of an archive, leaving out the top-level folder that contains them all.

    Links and devices are skipped.
    """
    count = 0
    try:
        with _Unfolded(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                count += 1
                parts = PurePosixPath(member.name).parts[1:]
                is_wanted = member.isfile() and parts
                if count > MAX_FILES or (is_wanted and member.size > MAX_BYTES):
                    raise UserError("too large for a plugin")
                if not is_wanted:
                    continue
                stream.near = member.size + BETWEEN_BYTES
                if ".." in parts or PurePosixPath(*parts).is_absolute():
                    raise UserError(f"{member.name} is outside the package")
                path = into.joinpath(*parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None
                with path.open("wb") as target:
                    shutil.copyfileobj(content, target)
                path.chmod(0o755 if member.mode & 0o100 else 0o644)
    except UserError as error:
        raise UserError(f"{what}: {error}") from None
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"{what}: the archive cannot be unpacked: {error}") from None


# The protocols allowed for fetching a repository; others can run commands.
PROTOCOLS = "https:http:ssh:file"
LEADS_OUT = "is a link to a path outside the plugin"


def bring(source: PluginSource, into: Path, *, base: Path, environ: Mapping[str, str]) -> str:
    """Fetch a source to `into`, which must not exist yet. Return the commit, if there is one.

    Relative paths start from the folder `base`. If fetching fails, no files are left behind.
    """
    make_private(into.parent)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".bringing-") as scratch:
        draft = Path(scratch, "whole")
        commit = ""
        if source.is_package:
            asyncio.run(unpacked(source, draft, environ))
            subfolder = resolve_inside(draft, source.path)
        elif source.url:
            commit = asyncio.run(clone(source, draft, environ))
            subfolder = resolve_inside(draft, source.path)
        else:
            subfolder = (base / Path(source.path).expanduser()).resolve()
        if not is_folder(subfolder):
            place = subfolder if not source.url else source.path
            raise UserError(f"{source}: folder not found: {place}")
        if leading_out := find_outward_link(subfolder):
            raise UserError(f"{source}: {leading_out} {LEADS_OUT}")
        ready = Path(scratch, "ready")
        try:
            shutil.copytree(subfolder, ready, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            ready.chmod(0o700)
            ready.rename(into)
        except (OSError, shutil.Error) as error:
            raise UserError(f"{source}: cannot be copied: {error}") from None
    return commit


async def clone(source: PluginSource, into: Path, environ: Mapping[str, str]) -> str:
    launcher = Launcher()
    git = Git(launcher, {**environ, "GIT_ALLOW_PROTOCOL": PROTOCOLS})
    try:
        parent = str(into.parent)
        branch_options = ["--branch", source.ref] if source.ref else []
        depth = [] if source.commit else ["--depth", "1"]
        await git(
            parent,
            "clone",
            "--quiet",
            "--no-tags",
            *depth,
            *branch_options,
            "--",
            source.url,
            str(into),
        )
        if source.commit:
            await git(str(into), "checkout", "--quiet", "--detach", source.commit)
        return (await git(str(into), "rev-parse", "HEAD")).strip()
    finally:
        await launcher.aclose()


def find_outward_link(root: Path) -> str:
    """Return the first link below `root` that points outside it, or an empty string.

    The target of such a link would be read as part of the plugin without being visible in its
    folder.
    """
    for folder, folders, names in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *names)):
            if is_link(path) and not path.resolve().is_relative_to(root):
                return str(path.relative_to(root))
    return ""


def resolve_inside(root: Path, path: str) -> Path:
    target = (root / path).resolve()
    if not target.is_relative_to(root.resolve()):
        raise UserError(f"{path} is outside the repository")
    return target
