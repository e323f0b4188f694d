"""Brings a plugin or a marketplace onto this machine: a folder is copied, a repository cloned, a package
unpacked.

Nothing of what is brought is run: no hooks of git, no submodules, no transports but the usual ones.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clew.config.there import is_folder, is_link
from clew.config.write import make_private
from clew.messages.errors import UserError
from clew.plugins.manifest import Source
from clew.plugins.npm import unpacked
from clew.process.spawn import Launcher
from clew.subagents.worktree import Git

# What a repository may be fetched by; others run commands of their own.
PROTOCOLS = "https:http:ssh:file"
LEADS_OUT = "is a link that leads out of the plugin"


def bring(source: Source, into: Path, *, base: Path, environ: Mapping[str, str]) -> str:
    """Puts what `source` names at `into`, which is not there yet; the commit, if it has one.

    `base` is the folder that relative paths start from. What fails leaves nothing behind.
    """
    make_private(into.parent)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".bringing-") as made:
        draft = Path(made, "whole")
        commit = ""
        if source.is_package:
            asyncio.run(unpacked(source, draft, environ))
            found = inside(draft, source.path)
        elif source.url:
            commit = asyncio.run(clone(source, draft, environ))
            found = inside(draft, source.path)
        else:
            found = (base / Path(source.path).expanduser()).resolve()
        if not is_folder(found):
            place = found if not source.url else source.path
            raise UserError(f"{source}: there is no folder {place}")
        if leading_out := outward(found):
            raise UserError(f"{source}: {leading_out} {LEADS_OUT}")
        ready = Path(made, "ready")
        try:
            shutil.copytree(found, ready, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            ready.chmod(0o700)
            ready.rename(into)
        except (OSError, shutil.Error) as error:
            raise UserError(f"{source}: cannot be copied: {error}") from None
    return commit


async def clone(source: Source, into: Path, environ: Mapping[str, str]) -> str:
    launcher = Launcher()
    git = Git(launcher, {**environ, "GIT_ALLOW_PROTOCOL": PROTOCOLS})
    try:
        here = str(into.parent)
        more = ["--branch", source.ref] if source.ref else []
        depth = [] if source.commit else ["--depth", "1"]
        await git(here, "clone", "--quiet", "--no-tags", *depth, *more, "--", source.url, str(into))
        if source.commit:
            await git(str(into), "checkout", "--quiet", "--detach", source.commit)
        return (await git(str(into), "rev-parse", "HEAD")).strip()
    finally:
        await launcher.aclose()


def outward(root: Path) -> str:
    """A link below `root` that leads out of it, by its name: what it leads to would be read as the
    plugin's own, and nobody who looks at the plugin sees it."""
    for folder, folders, names in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *names)):
            if is_link(path) and not path.resolve().is_relative_to(root):
                return str(path.relative_to(root))
    return ""


def inside(root: Path, path: str) -> Path:
    found = (root / path).resolve()
    if not found.is_relative_to(root.resolve()):
        raise UserError(f"{path}: leads out of the repository")
    return found
