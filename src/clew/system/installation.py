"""The installation method of clew, and the commands that update it or add an extra's packages.

Finds the tool that made the environment: uv, pipx, pip, Homebrew and others. Runs none of them.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

import clew
from clew.system.files import is_there


class Installation(Struct, frozen=True, kw_only=True):
    """The installation method of clew. `command` updates it, or is empty if `advice` says what to do.

    `query` asks the installer what it would install, without installing it.
    """

    by: str
    command: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    advice: str = ""
    # The command that installs clew with an extra, without the name of the package.
    adding: tuple[str, ...] = ()
    package: str = "clew"

    def describe_extra(self, extra: str) -> str:
        """Return the command that adds the packages of an extra."""
        if not self.adding:
            return (
                f"install clew[{extra}] with pip, pipx or uv; extras can't be added to this "
                f"installation ({self.by})"
            )
        return f"run: {shlex.join((*self.adding, f'{self.package}[{extra}]'))}"


def describe_extra(extra: str) -> str:
    """Return the command that adds the packages of an extra to the running clew."""
    return find_installation().describe_extra(extra)


def find_installation() -> Installation:
    """Return how the running clew was installed."""
    package = Path(clew.__file__).parent
    if package.parent.parent.name == "pyz":
        return Installation(by="a single file", advice="replace clew.pyz with a newer one")
    if "/nix/store/" in str(package):
        return Installation(by="Nix", advice="update the flake input, then rebuild")
    installed = distribution("clew")
    source = find_source(installed)
    if source is not None and source.is_editable:
        return Installation(
            by=f"a checkout in {source.folder}",
            advice=f"run: git -C {shlex.quote(source.folder)} pull, then reinstall clew",
            adding=(sys.executable, "-m", "pip", "install", "-e"),
            package=source.folder,
        )
    return find_tool(Path(sys.prefix), installed, "" if source is None else source.origin)


class InstallSource(Struct, frozen=True):
    """The origin of a package that was not installed from a package index."""

    origin: str
    folder: str
    is_editable: bool


def find_source(installed: Distribution) -> InstallSource | None:
    """Return the folder, archive or repository that clew was installed from; None for an index."""
    text = installed.read_text("direct_url.json")
    if text is None:
        return None
    about: Mapping[str, Any] = json.loads(text)
    url = str(about.get("url", ""))
    folder = unquote(urlsplit(url).path) if url.startswith("file:") else ""
    is_editable = bool((about.get("dir_info") or {}).get("editable"))
    repository = about.get("vcs_info")
    origin = f"{repository['vcs']}+{url}" if repository else folder or url
    return InstallSource(origin, folder, is_editable)


def find_tool(prefix: Path, installed: Distribution, origin: str) -> Installation:
    """Return the installer that created this environment. `origin` is empty for a package index."""
    python = sys.executable
    name = origin or "clew"
    query: tuple[str, ...]
    command: tuple[str, ...]
    adding: tuple[str, ...]
    if is_there(prefix / "uv-receipt.toml"):
        by = "uv tool"
        query = ("uv", "pip", "install", "--python", python)
        command = ("uv", "tool", "upgrade", "clew")
        if origin:
            command = ("uv", "tool", "install", "--reinstall", origin)
        adding = ("uv", "tool", "install")
    elif is_there(prefix / "pipx_metadata.json"):
        by = "pipx"
        query = ("pipx", "runpip", "clew", "install")
        command = ("pipx", "install", "--force", origin) if origin else ("pipx", "upgrade", "clew")
        adding = ("pipx", "install", "--force")
    elif "/Cellar/" in str(prefix):
        return Installation(by="Homebrew", command=("brew", "upgrade", "clew"))
    elif is_managed_by_system():
        return Installation(by="the system's package manager", advice="update it there")
    elif (installed.read_text("INSTALLER") or "").strip() == "uv":
        by = f"uv pip, in {prefix}"
        query = ("uv", "pip", "install", "--python", python)
        command = (*query, "--upgrade", *(("--reinstall-package", "clew") if origin else ()), name)
        adding = query
    else:
        by = f"pip, in {prefix}"
        query = (python, "-m", "pip", "install", "--disable-pip-version-check")
        # Reinstalls the dependencies too, because a newer clew can need others.
        command = (*query, "--upgrade", *(("--force-reinstall",) if origin else ()), name)
        adding = (python, "-m", "pip", "install")
    query = () if origin else (*query, "--dry-run", "--no-deps", "--upgrade", "clew")
    return Installation(by=by, command=command, query=query, adding=adding, package=name)


def is_managed_by_system() -> bool:
    """Return whether the environment belongs to the operating system.

    pip refuses to change such an environment.
    """
    import sysconfig

    return sys.prefix == sys.base_prefix and is_there(
        Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    )
