"""Paths that no allow rule and no mode opens by itself: touching them asks.

Owns the tables. Written without being asked, these would change what the agent may do, what git or
a shell or an editor runs next, or who can log in. Some hold secrets and ask before they are read.
"""

import re

from clew.permissions.patterns import GLOB, normal, segments_meet
from clew.permissions.request import Context, ResolvedPath

# Folders, wherever they lie: nothing below them is written unasked.
FOLDERS = frozenset(
    {
        ".git",
        ".claude",
        ".clew",
        ".vscode",
        ".idea",
        ".husky",
        ".cargo",
        ".devcontainer",
        ".yarn",
        ".mvn",
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".githooks",
    }
)

# Worktrees and plans that agents keep below `.claude` are ordinary files.
ORDINARY = ("/.claude/worktrees/", "/.claude/plans/")

FILES = frozenset(
    [
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_aliases",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".zshenv",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
        ".login",
        ".logout",
        ".inputrc",
        ".envrc",
        ".env-setup",
        "config.fish",
        ".xinitrc",
        ".xprofile",
        ".xsession",
        ".pam_environment",
        ".tmux.conf",
        ".screenrc",
        ".vimrc",
        ".exrc",
        ".emacs",
        ".netrc",
        ".gitconfig",
        ".gitmodules",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnp.cjs",
        ".pnp.loader.mjs",
        ".pnpmfile.cjs",
        ".pypirc",
        "bunfig.toml",
        ".bunfig.toml",
        ".bazelrc",
        ".bazelversion",
        ".bazeliskrc",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        "lefthook.yaml",
        ".lefthook.yml",
        ".lefthook.yaml",
        "gradle-wrapper.properties",
        "maven-wrapper.properties",
        ".devcontainer.json",
        ".ripgreprc",
        "pyrightconfig.json",
        ".mcp.json",
        ".claude.json",
        ".condarc",
        ".pythonrc",
        ".pdbrc",
        ".irbrc",
        ".gdbinit",
        ".lldbinit",
        ".wgetrc",
        ".curlrc",
        ".my.cnf",
        ".pgpass",
        ".pgservicerc",
        ".boto",
        ".s3cfg",
        "authorized_keys",
        "sudoers",
        "crontab",
    ]
)

BELOW_HOME = ("/.config/git", "/.config/fish", "/.config/systemd", "/.config/autostart")

SYSTEM = ("/etc", "/boot", "/dev", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64")
HARMLESS_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin"})

# What holds keys and passwords: asked about before it is read, too.
SECRETS = re.compile(
    r".*/(?:\.ssh(?:/.*)?|\.gnupg(?:/.*)?|\.aws(?:/.*)?|\.azure(?:/.*)?|\.kube(?:/.*)?"
    r"|\.docker/config\.json|\.netrc|\.pgpass|\.my\.cnf|\.pypirc|\.npmrc|\.git-credentials"
    r"|\.config/gh/hosts\.yml|\.config/gcloud(?:/.*)?|\.password-store(?:/.*)?|\.credentials\.json"
    r"|\.claude\.json|clew/(?:credentials|trust)\.json|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|keychains(?:/.*)?|login data|cookies(?:\.sqlite)?|\.bash_history|\.zsh_history)"
    r"|/etc/(?:shadow|gshadow|sudoers)(?:[-.].*)?|/etc/ssh/.*_key|/proc/[^/]+/(?:task/[^/]+/)?environ"
    r"|/dev/(?:mem|kmem|disk.*|sd[a-z].*|nvme.*)",
    re.S,
)

# What a glob in a path could stand for without being spelled out.
SECRET_NAMES = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".netrc",
    ".pgpass",
    ".git-credentials",
)

NETWORK = re.compile(r"/dev/(?:tcp|udp)(?:/.*)?", re.S)


def why_protected_write(path: ResolvedPath, context: Context) -> str | None:
    """Why writing the path asks; None for ordinary paths."""
    for name in path.names:
        why = why_written(folded(name), context)
        if why is not None:
            return why
    return None


def folded(name: str) -> str:
    return normal(name).casefold()


def why_written(name: str, context: Context) -> str | None:
    if NETWORK.fullmatch(name):
        return "opens a connection"
    if name in HARMLESS_DEVICES or (context.plan_file and name == folded(context.plan_file)):
        return None
    if SECRETS.fullmatch(name):
        return "holds credentials"
    if is_below(name, folded(context.config_home)):
        return "belongs to the agent's own settings and records"
    if any(name == folded(file) for file in context.startup_files):
        return "is run by what commands start, as a variable says"
    if any(name.rpartition("/")[0] == folded(folder) for folder in context.program_folders):
        return "lies where commands find their programs"
    parts = name.split("/")
    if parts[-1] in FILES:
        return f"{parts[-1]} decides what programs run"
    if not any(place in f"{name}/" for place in ORDINARY):
        inside = next((p for p in parts if p in FOLDERS), None)
        if inside is not None:
            return f"lies in {inside}, which decides what programs run"
    home = folded(context.home)
    if any(is_below(name, home + place) for place in BELOW_HOME):
        return "decides what programs run"
    roots = context.roots
    if any(is_below(name, s) for s in SYSTEM) and not any(is_below(name, folded(r)) for r in roots):
        return "belongs to the system"
    return None


def why_protected_read(path: ResolvedPath) -> str | None:
    """Why reading the path asks even inside the workspace."""
    for name in path.names:
        if SECRETS.fullmatch(folded(name)):
            return "holds credentials"
        if NETWORK.fullmatch(name):
            return "opens a connection"
    return None


def glob_meets(pattern: str, *, writes: bool) -> str | None:
    """A protected name that a pattern of the shell could stand for."""
    names = (*FOLDERS, *FILES) if writes else SECRET_NAMES
    for segment in pattern.split("/"):
        # A star does not stand for a dot at the head of a name.
        if GLOB.search(segment) and segment[0] in ".[?":
            for name in names:
                if segments_meet(segment, name):
                    return name
    return None


def is_below(name: str, folder: str) -> bool:
    """Whether a path is a folder or lies beneath it; nothing lies below an empty name."""
    return bool(folder) and (name == folder or name.startswith(f"{folder.rstrip('/')}/"))


def in_workspace(path: ResolvedPath, context: Context) -> bool:
    """Whether the file that is really meant lies in the working folder or a further one."""
    real = path.real
    return path.known and (
        is_below(real, context.cwd) or any(is_below(real, one) for one in context.directories)
    )


def is_own_result(path: ResolvedPath, context: Context) -> bool:
    own = (*context.results, context.memory)
    return path.known and any(folder and is_below(path.real, folder) for folder in own)


def is_critical(path: ResolvedPath, context: Context) -> bool:
    """Whether removing the path would take the system, a home or the workspace away."""
    for name in path.names:
        holds = (context.home, *context.roots)
        if name.count("/") <= 1 or any(is_below(kept, name) for kept in holds):
            return True
    return False
