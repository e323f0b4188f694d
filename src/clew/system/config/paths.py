"""The locations of settings, keys and clew's own files, for one environment and working folder.

Owns the rule for the config home: `$CLEW_CONFIG_DIR`, else `$CLAUDE_CONFIG_DIR`, else `~/.claude`,
evaluated at run time. Files that only clew uses are in its subfolder `clew`. This module reads and
creates nothing, except that it searches for the project's root.
"""

import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.system.files import is_of_user, is_there

MANAGED = {
    "linux": ("/etc/clew", "/etc/claude-code"),
    "darwin": ("/Library/Application Support/clew", "/Library/Application Support/ClaudeCode"),
    "win32": (r"C:\Program Files\clew", r"C:\Program Files\ClaudeCode"),
}


class Places(Struct, frozen=True, kw_only=True):
    """The locations of one session's files.

    `root` is the folder that contains the project's `.claude`.
    """

    cwd: Path
    root: Path
    home: Path
    config_home: Path
    managed_folders: tuple[Path, ...]

    @property
    def user_settings(self) -> Path:
        return self.config_home / "settings.json"

    @property
    def project_settings(self) -> Path:
        return self.root / ".claude" / "settings.json"

    @property
    def local_settings(self) -> Path:
        return self.root / ".claude" / "settings.local.json"

    @property
    def own(self) -> Path:
        return self.config_home / "clew"

    @property
    def trust(self) -> Path:
        return self.own / "trust.json"

    @property
    def credentials(self) -> Path:
        return self.own / "credentials.json"

    @property
    def api_versions(self) -> Path:
        return self.own / "api-versions.json"

    @property
    def known_models(self) -> Path:
        return self.own / "models.tsv"

    def settings_file(self, scope: str) -> Path:
        """Return the settings file that commands write for a scope."""
        return {
            "user": self.user_settings,
            "project": self.project_settings,
            "local": self.local_settings,
        }[scope]


def find_places(
    environ: Mapping[str, str], cwd: Path, *, managed_folders: tuple[Path, ...] | None = None
) -> Places:
    home = find_home(environ)
    config_home = find_config_home(environ, cwd)
    if managed_folders is None:
        names = MANAGED.get(sys.platform, MANAGED["linux"])
        managed_folders = tuple(Path(name) for name in names)
    return Places(
        cwd=cwd,
        root=project_root(cwd, home, config_home),
        home=home,
        config_home=config_home,
        managed_folders=managed_folders,
    )


def find_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(home) if home else Path.home()


def find_config_home(environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the config home. Evaluated at run time, because a host may set it per session."""
    folder = environ.get("CLEW_CONFIG_DIR") or environ.get("CLAUDE_CONFIG_DIR")
    home = cwd / folder if folder else find_home(environ) / ".claude"
    return Path(unicodedata.normalize("NFC", str(home)))


def project_root(cwd: Path, home: Path, config_home: Path) -> Path:
    """Return the nearest folder with settings, from `cwd` up to the repository's root; else `cwd`.

    The same deny rules therefore apply to a session started in a subfolder and one started at the
    top. The search ends at the home folder, too. Settings above `cwd` count only if they belong to
    the user or root.
    """
    for folder in (cwd, *cwd.parents):
        own = folder / ".claude"
        # In a shared folder such as /tmp, every user can create one.
        if has_settings(own, config_home) and (folder == cwd or is_of_user(own)):
            return folder
        if folder == home or is_there(folder / ".git"):
            break
    return cwd


def has_settings(claude: Path, config_home: Path) -> bool:
    names = ("settings.json", "settings.local.json")
    return claude != config_home and any(is_there(claude / name) for name in names)
