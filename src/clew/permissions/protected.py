"""Paths that always need the user's approval, whatever the allow rules and the mode say.

Owns the tables. Writing one of these files could change what the agent may do, what git, a shell or
an editor runs next, or who can log in. Some contain secrets, so reading them needs approval as
well.
"""

import re
from collections.abc import Iterable

from clew.core.regex import lazy_pattern
from clew.permissions.patterns import GLOB, may_meet, normalize_text, segments_meet
from clew.permissions.request import Context, ResolvedPath

# Folders with these names, at any depth. Writing anything below them needs approval.
FOLDERS = frozenset({
    ".git", ".claude", ".clew", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn",
    ".mvn", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".githooks",
    ".cursor", ".windsurf", ".gemini", ".codex", ".zed", ".kiro", ".opencode", ".direnv",
})  # fmt: skip

# The worktrees and plans of agents below `.claude` are ordinary files.
ORDINARY = ("/.claude/worktrees/", "/.claude/plans/")

FILES = frozenset({
    ".bashrc", ".bash_profile", ".bash_login", ".bash_aliases", ".bash_logout", ".profile",
    ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".logout", ".inputrc", ".envrc", ".env-setup", "config.fish", ".xinitrc", ".xprofile",
    ".xsession", ".pam_environment", ".tmux.conf", ".screenrc", ".vimrc", ".exrc", ".emacs",
    ".netrc", ".gitconfig", ".gitmodules", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs",
    ".pnp.loader.mjs", ".pnpmfile.cjs", ".pypirc", "bunfig.toml", ".bunfig.toml", ".bazelrc",
    ".bazelversion", ".bazeliskrc", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml",
    ".lefthook.yml", ".lefthook.yaml", "gradle-wrapper.properties", "maven-wrapper.properties",
    ".devcontainer.json", ".ripgreprc", "pyrightconfig.json", ".mcp.json", ".claude.json",
    ".condarc", ".pythonrc", ".pdbrc", ".irbrc", ".gdbinit", ".lldbinit", ".wgetrc", ".curlrc",
    ".my.cnf", ".pgpass", ".pgservicerc", ".boto", ".s3cfg", "authorized_keys", "sudoers",
    "crontab", ".rprofile", ".ghci", ".pryrc", ".dir-locals.el", ".nvimrc", ".nvim.lua", ".lvimrc",
    "mise.toml", ".mise.toml",
})  # fmt: skip

# Files that shells, editors, builds and desktop sessions run, and folders with the user's programs.
BELOW_HOME = (
    "/.config/git", "/.config/fish", "/.config/systemd", "/.config/autostart", "/.config/zsh",
    "/.config/environment.d", "/.config/mise", "/.config/direnv", "/.config/nvim", "/.config/emacs",
    "/.vim", "/.emacs.d", "/.oh-my-zsh", "/.gradle/init.d", "/.gradle/init.gradle", "/.local/bin",
    "/.local/share/applications", "/library/launchagents",
)  # fmt: skip

SYSTEM = (
    "/etc", "/boot", "/dev", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt",
    "/run", "/var/spool", "/library", "/system", "/private/etc",
)  # fmt: skip
HARMLESS_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"})

# Files with keys, passwords and input history, relative to a home folder. A trailing slash marks a
# folder. Reading one needs approval at any location, and sandboxed commands cannot read them.
SECRET_PLACES = (
    # Login, signing, encryption.
    ".ssh/", ".gnupg/", ".password-store/", ".age/", ".config/age/", ".config/sops/", ".config/op/",
    ".op/", ".local/share/keyrings/", ".local/share/kwalletd/", "Library/Keychains/", ".vault-token",
    ".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".config/solana/id.json",
    # Agents and models.
    ".claude.json", ".claude/.credentials.json", ".claude/ide/", ".codex/auth.json", ".gemini/oauth_creds.json",
    ".config/github-copilot/", ".huggingface/token", ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens", ".kaggle/", ".config/kaggle/",
    # Clouds and container platforms.
    ".aws/", ".azure/", ".config/gcloud/", ".oci/", ".kube/", ".docker/config.json",
    ".config/containers/auth.json", ".terraform.d/credentials.tfrc.json", ".terraformrc",
    ".pulumi/credentials.json", ".config/doctl/", ".config/hcloud/", ".fly/config.yml",
    ".config/netlify/", ".config/heroku/", ".config/configstore/", ".local/share/com.vercel.cli/auth.json", ".config/stripe/", ".s3cfg", ".boto",
    ".config/rclone/", ".rclone.conf", ".config/ngrok/", ".ngrok2/",
    # Code hosting and package registries.
    ".git-credentials", ".config/git/credentials", ".config/gh/", ".config/hub", ".config/glab-cli/",
    ".npmrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
    ".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config",
    # Databases.
    ".pgpass", ".my.cnf", ".mylogin.cnf", ".databrickscfg", ".databricks/", ".snowsql/config",
    ".snowflake/", ".dbt/profiles.yml",
    # Input history and browsers.
    ".bash_history", ".zsh_history", ".zhistory", ".histfile", ".local/share/fish/fish_history",
    ".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history",
    ".rediscli_history", ".mozilla/", ".config/google-chrome/", ".config/chromium/",
    ".config/BraveSoftware/", "Library/Cookies/", "Library/Application Support/Google/Chrome/",
)  # fmt: skip
# Secrets of the system, for users who may read them, such as root.
SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d")

SECRET_FILES = frozenset(
    {
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        ".credentials.json",
        "login data",
        "cookies",
        "cookies.sqlite",
    }
)
SECRET_REST = lazy_pattern(
    r".*/clew/(?:credentials|trust)\.json|.*/ide/[0-9]+\.lock|.*/keychains(?:/.*)?"
    r"|/etc/(?:shadow|gshadow|sudoers)(?:[-.].*)?|/etc/ssh/.*_key|/proc/[^/]+/(?:task/[^/]+/)?environ"
    # The memory of another process, and its file system under another name.
    r"|/proc/(?!(?:thread-)?self/)[^/]+/(?:task/[^/]+/)?(?:mem|root|cwd|fd|fdinfo|map_files|auxv)(?:/.*)?"
    r"|/proc/(?:thread-)?self/(?:task/[^/]+/)?mem|/proc/k(?:core|msg)|/dev/(?:k?mem)",
    re.S,
)
# Devices such as raw disks, terminals and cameras. The devices excluded here contain no such data.
DEVICE = lazy_pattern(
    r"/dev/(?!(?:null|zero|full|u?random|std(?:in|out|err)|fd(?:/.*)?|shm(?:/.*)?)\Z).+", re.S
)


def by_first_segment(places: Iterable[str]) -> dict[str, list[tuple[list[str], bool]]]:
    """Group places by their first segment.

    Each place becomes a pair: its segments, and whether it is a folder.
    """
    groups: dict[str, list[tuple[list[str], bool]]] = {}
    for place in places:
        segments = place.casefold().rstrip("/").split("/")
        groups.setdefault(segments[0], []).append((segments, place.endswith("/")))
    return groups


SECRETS_BY_SEGMENT = by_first_segment(SECRET_PLACES)

# Names that a glob in a path could match without spelling them out.
SECRET_NAMES = tuple(
    name
    for name, places in SECRETS_BY_SEGMENT.items()
    if name.startswith(".") and any(len(segments) == 1 for segments, _ in places)
)


def holds_secrets(name: str) -> bool:
    """Return whether a case-folded path is one of the secret places, or inside one."""
    segments = name.split("/")
    first_segments = SECRETS_BY_SEGMENT.keys()
    for index, segment in enumerate(() if first_segments.isdisjoint(segments) else segments):
        for place, is_folder in SECRETS_BY_SEGMENT.get(segment, ()):
            end = index + len(place)
            if segments[index:end] == place and (is_folder or end == len(segments)):
                return True
    return segments[-1] in SECRET_FILES or SECRET_REST.fullmatch(name) is not None


# Special files that bash and gawk treat as network connections.
NETWORK = lazy_pattern(r"/dev/(?:tcp|udp)(?:/.*)?|/inet[46]?/.*", re.S)


def why_protected_write(path: ResolvedPath, context: Context) -> str | None:
    """Return why writing the path needs approval, or None for an ordinary path."""
    for name in path.names:
        why = why_written(folded(name), context)
        if why is not None:
            return why
    return None


def folded(name: str) -> str:
    return normalize_text(name).casefold()


def why_written(name: str, context: Context) -> str | None:
    if NETWORK.fullmatch(name):
        return "opens a connection"
    if name in HARMLESS_DEVICES or (context.plan_file and name == folded(context.plan_file)):
        return None
    if holds_secrets(name):
        return "contains credentials"
    if is_below(name, folded(context.config_home)):
        return "contains clew's settings and sessions"
    if any(name == folded(file) for file in context.startup_files):
        return "runs whenever a shell or program of this session starts"
    if any(name.rpartition("/")[0] == folded(folder) for folder in context.program_folders):
        return "is in a folder on PATH"
    parts = name.split("/")
    if parts[-1] in FILES:
        return f"{parts[-1]} controls which programs run"
    if not any(place in f"{name}/" for place in ORDINARY):
        inside = next((p for p in parts if p in FOLDERS), None)
        if inside is not None:
            return f"is in {inside}, which controls which programs run"
    home = folded(context.home)
    if any(is_below(name, home + place) for place in BELOW_HOME):
        return "controls which programs run"
    roots = context.roots
    if any(is_below(name, s) for s in SYSTEM) and not any(is_below(name, folded(r)) for r in roots):
        return "is a system file"
    return None


def why_protected_read(path: ResolvedPath) -> str | None:
    """Return why reading the path needs approval even inside the workspace, or None."""
    for name in path.names:
        if holds_secrets(folded(name)):
            return "contains credentials"
        if NETWORK.fullmatch(name):
            return "opens a connection"
        if DEVICE.fullmatch(name):
            return "is a device"
    return None


def find_secret_below(folder: str, home: str) -> str | None:
    """Return a secret place inside a folder, for a command that reads everything in it, or None."""
    places = (*(f"{home}/{place.rstrip('/')}" for place in SECRET_PLACES), *SYSTEM_SECRETS)
    return next((place for place in places if is_below(place, folder)), None)


def find_secret_match(pattern: str, home: str) -> str | None:
    """Return a secret place in the home folder that a shell pattern could match, or None."""
    segments = tuple(part for part in pattern.split("/") if part)
    for place in SECRET_PLACES:
        rest = ("**",) if place.endswith("/") else ()
        secret_segments = (*home.strip("/").split("/"), *place.rstrip("/").split("/"), *rest)
        if may_meet(segments, secret_segments):
            return f"~/{place}"
    return None


def find_protected_match(pattern: str, *, writes: bool) -> str | None:
    """Return a protected name that a shell pattern could match, or None."""
    names = (*FOLDERS, *FILES) if writes else SECRET_NAMES
    for segment in pattern.split("/"):
        # A star does not match a leading dot.
        if GLOB.search(segment) and segment[0] in ".[?":
            for name in names:
                if segments_meet(segment, name):
                    return name
    return None


def is_below(name: str, folder: str) -> bool:
    """Return whether a path is a folder or is below it. No path is below an empty folder name."""
    return bool(folder) and (name == folder or name.startswith(f"{folder.rstrip('/')}/"))


def in_workspace(path: ResolvedPath, context: Context) -> bool:
    """Return whether the real path is in the working folder or an additional folder."""
    real = path.real
    return path.known and (
        is_below(real, context.cwd)
        or any(is_below(real, directory) for directory in context.directories)
    )


def is_own_result(path: ResolvedPath, context: Context) -> bool:
    own = (*context.results, context.memory)
    return path.known and any(folder and is_below(path.real, folder) for folder in own)


def is_critical(path: ResolvedPath, context: Context) -> bool:
    """Return whether deleting the path would delete the system, home folder or workspace."""
    for name in path.names:
        holds = (context.home, *context.roots)
        if name.count("/") <= 1 or any(is_below(hold, name) for hold in holds):
            return True
    return False
