"""A plugin that is published as an npm package: its archive, brought by npm and unpacked here.

Nothing of the package is run: no scripts, no installation, none of what it depends on. Which registry is
asked, and as whom, is npm's own configuration, or the source's word; that of a project does not count.
"""

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from clew.messages.errors import UserError
from clew.plugins.manifest import NPM, Source
from clew.process.output import Output
from clew.process.run import run
from clew.process.spawn import Launcher

TIMEOUT_S = 120.0
MAX_BYTES = 256 << 20
MAX_FILES = 20_000
# Headers of any kind, and members that are no files.
BETWEEN_BYTES = 1 << 20


async def unpacked(source: Source, draft: Path, environ: Mapping[str, str]) -> None:
    """Puts the package's files at `draft`, which is not there yet."""
    here = draft.with_name("archive")
    here.mkdir()
    launcher = Launcher()
    try:
        await packed(launcher, source, here, environ)
    finally:
        await launcher.aclose()
    archives = sorted(here.glob("*.tgz"))
    if not archives:
        raise UserError(f"{source}: npm brought no archive")
    unpack(archives[0], draft, str(source))


async def packed(
    launcher: Launcher, source: Source, here: Path, environ: Mapping[str, str]
) -> None:
    said, complained = Output(keep_bytes=2000), Output(keep_bytes=2000)
    wanted = source.url.removeprefix(NPM) + (f"@{source.ref}" if source.ref else "")
    argv = ["npm", "pack", "--ignore-scripts", "--pack-destination", str(here)]
    argv += [f"--registry={source.registry}"] if source.registry else []
    try:
        ended = await run(
            launcher,
            [*argv, "--", wanted],
            cwd=str(here),
            env=dict(environ),
            stdout=said,
            stderr=complained,
            timeout_s=TIMEOUT_S,
        )
    except OSError as error:
        raise UserError(f"{source}: needs npm, which cannot be run: {error.strerror}") from None
    if ended.timed_out or ended.exit.code != 0:
        lines = bytes(complained.head).decode("utf-8", "replace").splitlines()
        why = next((line for line in lines if line.strip()), "it failed")
        raise UserError(f"{source}: npm pack: {why}")


class _Unfolded(gzip.GzipFile):
    """What an archive unfolds to: no more in all than a plugin may have, nor between two of its files."""

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
    """The files of an archive, without the folder they all lie in; links and devices are left out."""
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
                    raise UserError(f"{member.name} leads out of the package")
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
        raise UserError(f"{what}: its archive cannot be unpacked: {error}") from None
