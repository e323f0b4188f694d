"""A plugin that is published as an npm package: its archive, brought by npm and unpacked here.

Nothing of the package is run: no scripts, no installation, none of what it depends on. Which registry is
asked, and as whom, is npm's own configuration, or the source's word; that of a project does not count.
"""

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


def unpack(archive: Path, into: Path, what: str) -> None:
    """The files of an archive, without the folder they all lie in; links and devices are left out."""
    size = count = 0
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts[1:]
                if not member.isfile() or not parts:
                    continue
                size, count = size + member.size, count + 1
                if size > MAX_BYTES or count > MAX_FILES:
                    raise UserError(f"{what}: too large for a plugin")
                if ".." in parts or PurePosixPath(*parts).is_absolute():
                    raise UserError(f"{what}: {member.name} leads out of the package")
                path = into.joinpath(*parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None
                path.write_bytes(content.read())
                path.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise UserError(f"{what}: its archive cannot be unpacked: {error}") from None
