"""The sandbox of a session, determined at the start by its settings, folders and mode.

The sandbox is fixed because a command can write settings files, which must not weaken the sandbox
for later commands. Only the mode may change. Owns the rule for which commands are confined, and the
notices if confining them is not possible.
"""

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.core.messages.errors import OutsideError
from clew.core.messages.text import format_count
from clew.core.regex import lazy_pattern
from clew.parts.denied_paths import Access, DeniedFiles
from clew.parts.part import Part, PartContext
from clew.permissions.decision import Ask, Decision, NeedsReview, make_decision
from clew.permissions.in_session import SessionRules
from clew.permissions.protected import SECRET_PLACES, SYSTEM_SECRETS
from clew.permissions.request import HeldByGit, PermissionRequest
from clew.permissions.rules import (
    Anchors,
    PermissionRule,
    RejectedRule,
    RuleSet,
    RuleSource,
    parse_rule,
)
from clew.permissions.session_rules import CurrentRules
from clew.system.config.environment import AGENT_VARIABLES, freeze
from clew.system.config.flags import is_feature_on
from clew.system.config.git_guard import WITHOUT_FETCHING, doubting, with_git_settings
from clew.system.files import is_folder
from clew.system.process.spawn import Launcher
from clew.system.process.walls import can_build_wall
from clew.system.sandbox.policy import SandboxPolicy, SandboxSettings, both, covers, read_settings
from clew.system.sandbox.protected_paths import Listing, Watched, list_commit_paths
from clew.system.sandbox.walled import SandboxError, Walled

if TYPE_CHECKING:
    from clew.permissions.git_history import GitHistory
    from clew.permissions.reading import CommandLine
    from clew.system.sandbox.box import Box
    from clew.system.sandbox.violations import SandboxViolation

NO_SANDBOX = "no sandbox available"

# The variables that an unprompted command receives, in addition to those in settings. None of them
# can make another program or file run, or contain a key.
VARIABLES = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PWD",
        "LANG",
        "LANGUAGE",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "TZ",
        "COLUMNS",
        "LINES",
        *AGENT_VARIABLES,
        "CI",
        "GIT_EDITOR",
        # These select git's repository. Without them, git would use a different repository than
        # for approved commands.
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "JAVA_HOME",
        "GOPATH",
        "GOROOT",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "NVM_DIR",
        "PYENV_ROOT",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
    ]
)
VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*\*?")
WORD = lazy_pattern(r"[A-Za-z_]\w{2,}")
MISSING = (
    "Commands that run without asking do not receive these variables: {names} (the user can pass them with "
    "sandbox.allowEnvironment)."
)
NO_WALLS = (
    "no read-only sandbox available (Landlock requires Linux 6.2, and bubblewrap is not installed): only "
    "a short list of commands runs without asking"
)
# Git configuration for untrusted folders (see `system.config.git_guard`).
BARE = ("safe.bareRepository", "explicit")
# No diffs within submodules, because their histories were not searched for denied files.
SHORTER = (("diff.submodule", "short"),)
SECRETS_AT_HOME = tuple(place.rstrip("/") for place in SECRET_PLACES)
# Modes in which the sandbox is on by default.
OWN_MODES = ("auto", "acceptEdits")
NO_WALL = (
    "The command did not run: the read-only sandbox for commands that run without asking is no longer "
    "available ({why})."
)
PROMISED = (
    "The command did not run: the settings require a sandbox, but it is not available ({why}). The user can "
    "install bubblewrap, or set sandbox.enabled to false in their own settings."
)


class SessionSandbox(Part):
    """The session part for sandboxes.

    There are two: the sandbox itself, which the setting `enabled` and the mode turn on, and the
    read-only sandbox for commands that run without asking, which is always on if available.
    """

    name = "sandbox"

    def __init__(
        self,
        rules: SessionRules,
        launcher: Launcher,
        *,
        hidden: Sequence[str],
        aside: Path,
    ) -> None:
        """Prepare the sandboxes. Risky files that a command creates are moved to `aside`."""
        standing = rules.standing
        settings, faults = read_settings(standing.layers, home=standing.context.home)
        self._notices = faults
        self._aside = aside
        self._listing = Listing()
        self._rules = rules
        self._launcher = launcher
        self._settings = settings
        environment = freeze(standing.environ)
        self._without = [
            kind
            for kind in ("bubblewrap", "landlock", "seatbelt")
            if not is_feature_on(kind, standing.settings, environment)
        ]
        self._hidden = hidden
        self._began = rules.standing
        self._excluded = excluded_rules(settings, self._began)
        self._box: Box | None = None
        self._read_only: Box | None = None
        self._has_walls: bool | None = None
        # The reason why no read-only sandbox is available, once a command has tried it.
        self.why_no_walls = ""
        # Worktrees of agents.
        self._checkouts: set[str] = set()
        self._denied = DeniedFiles(self._listing)
        # Variables that commands lacked and that the model already knows about.
        self._told_missing: set[str] = set()
        self._history: GitHistory | None = None
        rules.rely_on(self)

    @property
    def box(self) -> "Box":
        """The sandbox, created on first use because most sessions need none.

        Raise `SandboxError` if it cannot be created.
        """
        if self._box is None:
            self._box = self._made(policy_of(self._settings, self._began))
        return self._box

    @property
    def read_only(self) -> "Box":
        """The read-only sandbox, created on first use."""
        if self._read_only is None:
            self._read_only = self._made(SandboxPolicy(write=(), is_read_only=True))
        return self._read_only

    def _made(self, policy: SandboxPolicy) -> "Box":
        from clew.system.sandbox.box import Box

        return Box(policy, self._launcher, hidden=self._hidden, without=self._without)

    async def open(self, _: PartContext, /) -> None:
        self._notices += await self.news()

    def notices(self) -> tuple[str, ...]:
        return self._notices

    async def aclose(self) -> None:
        for box in (self._box, self._read_only):
            if box is not None:
                box.close()

    @property
    def is_wanted(self) -> bool:
        if self._settings.enabled is None:
            return self._rules.mode in OWN_MODES
        return self._settings.enabled

    @property
    def is_promised(self) -> bool:
        return self._settings.enabled is True and self._settings.must_work is not False

    @property
    def has_walls(self) -> bool:
        if self._has_walls is None:
            self._has_walls = can_build_wall()
        return self._has_walls

    @property
    def passed(self) -> str:
        names = filter(VARIABLE.fullmatch, self._settings.variables)
        return "|".join((*sorted(VARIABLES), "LC_*", "TMPDIR", *names))

    async def can_confine(self) -> bool:
        if self.has_walls:
            try:
                await self.read_only.kind()
            except SandboxError as error:
                self._has_walls, self.why_no_walls = False, str(error)
        return self.has_walls

    def held_by_git(self, folder: str, held_against: RuleSet) -> HeldByGit:
        """Return the restrained files in the index or history of the repository around a folder.

        The result may be unknown until `look_up` has searched the repository. The search of git's
        history is set up when a command first asks git for file contents.
        """
        if self._history is None:
            from clew.permissions.git_history import GitHistory

            self._history = GitHistory(self._launcher, self._began.environ)
        return self._history.held(folder, held_against)

    async def look_up(self) -> bool:
        return self._history is not None and await self._history.look_up()

    async def news(self) -> tuple[str, ...]:
        """Return notices for the user at the start."""
        news = () if self.has_walls else (NO_WALLS,)
        if self.is_wanted:
            try:
                await self.box.kind()
            except SandboxError as error:
                then = (
                    "so no command will run"
                    if self.is_promised
                    else "so commands will run without one"
                )
                news = (*news, f"{NO_SANDBOX}, {then}: {error}")
        return news

    async def page(self) -> list[tuple[str, str]]:
        """Return the state of the sandbox for display, as rows."""
        await self.can_confine()
        kind = await self.read_only.kind() if self.has_walls else ""
        why = self.why_no_walls or "no Landlock (requires Linux 6.2) and no bubblewrap"
        rows = [("read-only sandbox", f"available ({kind})" if kind else f"not available: {why}")]
        try:
            kind, weakness = await self.box.kind(), self.box.weakness
            rows.append(("sandbox", f"{self._switched}; {weakness or f'available ({kind})'}"))
        except SandboxError as error:
            rows.append(("sandbox", f"{self._switched}; not available: {error}"))
        policy = self._policy(self._began.context.cwd)
        denied = len(self._shut("read"))
        paths = format_count(len(policy.no_read), "path")
        rows += [
            ("writable paths", ", ".join(policy.write)),
            ("denied reads", f"{paths}, {denied} of them by deny rules"),
            ("allowed hosts", ", ".join(policy.domains) or "none"),
            ("excluded commands", ", ".join(self._settings.excluded) or "none"),
            ("passed variables", ", ".join(self._settings.variables) or "none"),
        ]
        return rows

    @property
    def _switched(self) -> str:
        """The state of the sandbox as text: whether it is on, and the reason."""
        state = "on" if self.is_wanted else "off"
        if self._settings.enabled is None:
            return f"{state} in mode {self._rules.mode} (turned on automatically in {' and '.join(OWN_MODES)})"
        return f"{state} (set in settings)"

    def opens(self, tree: str) -> None:
        """Allow commands to write to an agent's worktree."""
        self._checkouts.add(os.path.realpath(tree))

    def _shut(self, access: Access) -> tuple[str, ...]:
        """Return the existing paths that the initial or the current deny rules match."""
        standings = (self._began, self._rules.standing)
        both_rules = standings[: 1 if standings[0].rules is standings[1].rules else 2]
        return real([path for rule in both_rules for path in self._denied.named(rule, access)])

    def _read_only_policy(self) -> SandboxPolicy:
        files, began = self._settings.files, self._began
        shut = (*real(files.no_read), *secrets_of(began, self._listing), *self._shut("read"))
        return SandboxPolicy(
            write=(), no_read=both(shut, ()), read=real(files.read), is_read_only=True
        )

    def _policy(self, cwd: str) -> SandboxPolicy:
        """Return the sandbox policy for a command that runs in `cwd`.

        An agent's worktree is writable although it is inside `.claude`, except for files that
        programs execute.
        """
        policy, folder = self.box.policy, os.path.realpath(cwd)
        policy = replace(
            policy,
            no_read=both(
                (*policy.no_read, *secrets_of(self._began, self._listing)), self._shut("read")
            ),
            no_write=both(policy.no_write, self._shut("edit")),
        )
        tree = next((tree for tree in self._checkouts if covers((tree,), folder)), None)
        if tree is None:
            return policy
        write = (*policy.write, tree, *list_commit_paths(tree))
        return replace(policy, write=write, no_write=(*policy.no_write, f"{tree}/.claude"))

    @asynccontextmanager
    async def around(
        self,
        command: str,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        *,
        line: "CommandLine | None" = None,
        is_confined: bool = False,
    ) -> AsyncIterator[Walled]:
        async with AsyncExitStack() as opened:
            confinement = Walled(argv=tuple(argv), environment=dict(environment))
            if is_confined:
                passed_names = self._settings.variables
                variables = {k: v for k, v in environment.items() if is_passed(k, passed_names)}
                # In a partial clone, git would start a program to fetch missing objects.
                variables |= WITHOUT_FETCHING
                variables = with_git_settings(variables, SHORTER)
                if BARE[0] in environment.values():
                    variables = with_git_settings(variables, [BARE])
                try:
                    wall = self.read_only.around(
                        argv, cwd, variables, policy=self._read_only_policy()
                    )
                    confinement = await opened.enter_async_context(wall)
                    removed = tuple(name for name in environment if name not in variables)
                    confinement = replace(confinement, removed=removed)
                except SandboxError as error:
                    raise OutsideError(NO_WALL.format(why=error)) from None
            elif self.is_wanted and not self.is_excluded(command, line):
                try:
                    policy = self._policy(cwd)
                    watched = Watched(
                        self._watched(policy),
                        self._listing,
                        own=self._began.context.config_home,
                    )
                    policy = replace(policy, no_write=both(policy.no_write, watched.there))
                    confinement = await opened.enter_async_context(
                        self.box.around(argv, cwd, environment, policy=policy)
                    )
                    if confinement.walls is not None:
                        opened.enter_context(doubting())
                    # Landlock allows entire trees, so it can't protect anything inside one.
                    no_write = () if confinement.walls is not None else policy.no_write
                    opened.callback(
                        lambda: confinement.told.extend(
                            watched.settle(self._aside, protected_places=no_write)
                        )
                    )
                except SandboxError as error:
                    if self.is_promised:
                        raise OutsideError(PROMISED.format(why=error)) from None
            yield confinement

    @asynccontextmanager
    async def around_search(
        self, argv: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> AsyncIterator[Walled]:
        """Prepare a search of `folder`, which permissions allowed even if it contains secrets.

        A folder that becomes a link during the search would lead it to denied files. bubblewrap is
        not used: it enters the search's folder by name.
        """
        async with AsyncExitStack() as opened:
            confinement = Walled(argv=tuple(argv), environment=dict(environment))
            if await self.can_confine() and await self.read_only.kind() != "bubblewrap":
                policy = self._read_only_policy()
                no_read = tuple(path for path in policy.no_read if not covers((path,), folder))
                confinement = await opened.enter_async_context(
                    self.read_only.around(
                        argv, folder, environment, policy=replace(policy, no_read=no_read)
                    )
                )
            yield confinement

    def _watched(self, policy: SandboxPolicy) -> list[str]:
        """Return the writable folders that contain the user's work."""
        own = (self.box.temp, *list_commit_paths(self._began.context.cwd))
        return [path for path in policy.write if path not in own and is_folder(Path(path))]

    def missing(self, text: str, walled: Walled) -> str:
        """Return a sentence about removed variables that a failed command mentions.

        Each variable is reported only once.
        """
        words = set(WORD.findall(text))
        names = [n for n in walled.removed if n in words and n not in self._told_missing]
        self._told_missing.update(names)
        return MISSING.format(names=", ".join(names)) if names else ""

    def held_back(self, output: str, walled: Walled, cwd: str) -> "Sequence[SandboxViolation]":
        from clew.system.sandbox.violations import find_violations

        if walled.policy is None:
            return ()
        home = self._began.context.home
        return find_violations(
            output,
            walled.policy,
            cwd=cwd,
            home=home,
            refused=walled.refused,
            can_do=os.access,
        )

    def is_excluded(self, command: str, line: "CommandLine | None") -> bool:
        """Return whether the settings exclude all parts of a command from the sandbox."""
        if self._excluded is None:
            return False
        # Loaded with the first call, because this imports the command parser.
        from clew.permissions.decide import judge
        from clew.permissions.files import Bench

        context, resolve = self._began.context, self._began.resolve
        bench = Bench(rules=self._excluded, context=context, resolve=resolve)
        parts = judge(bench, PermissionRequest(tool="Bash", input={"command": command}, line=line))
        return all(part.rule is not None for part in parts)

    def spared(self, call: BoundCall, decision: Decision) -> Decision:
        """Return the decision, but allow a sandboxed command that only the mode would ask about."""
        spares = self._settings.spares_questions
        is_on = self._settings.enabled is True if spares is None else spares
        command = call.block["input"].get("command")
        if call.name != "Bash" or not isinstance(decision, Ask | NeedsReview) or not is_on:
            return decision
        stands = self._box is not None and self._box.works
        if not (self.is_wanted and stands and isinstance(command, str)):
            return decision
        if self.is_excluded(command, call.line):
            return decision
        return make_decision(
            [
                replace(part, verdict="allow", reason="runs in the sandbox")
                if part.nature == "base" and part.verdict in ("ask", "review")
                else part
                for part in decision.findings
            ]
        )


def excluded_rules(settings: SandboxSettings, standing: CurrentRules) -> RuleSet | None:
    """Return `excludedCommands` as rules, or None without any.

    The entry `docker` also matches calls with arguments.
    """
    rules: list[PermissionRule] = []
    for pattern in settings.excluded:
        texts = [pattern] if "*" in pattern else [pattern, f"{pattern} *"]
        for text in texts:
            rule = parse_rule(
                f"Bash({text})",
                "allow",
                root=standing.context.cwd,
                source=RuleSource(scope="session"),
            )
            if not isinstance(rule, RejectedRule):
                rules.append(rule)
    if not rules:
        return None
    return RuleSet(rules, anchors=Anchors(cwd=standing.context.cwd, home=standing.context.home))


def policy_of(settings: SandboxSettings, standing: CurrentRules) -> SandboxPolicy:
    """Return the basic policy of the sandbox, without the existing paths that deny rules match."""
    context, files = standing.context, settings.files
    outside = [path for root in context.roots for path in list_commit_paths(root)]
    roots = real((*context.roots, *outside, *files.write))
    settings_folders = [f"{root}/.claude" for root in context.roots]
    return SandboxPolicy(
        write=roots,
        no_write=real((*files.no_write, *settings_folders, context.config_home)),
        no_read=real(files.no_read),
        read=real(files.read),
        domains=settings.network.domains,
        no_domains=settings.network.no_domains,
        unix_sockets=settings.network.unix_sockets,
    )


def secrets_of(standing: CurrentRules, listing: Listing) -> tuple[str, ...]:
    """Return the secret files that exist.

    The home folder is listed first, because most of the files do not exist there.
    """
    home, places = standing.context.home, standing.places
    names = {name for name, _ in listing.entries(home)}
    paths = [f"{home}/{place}" for place in SECRETS_AT_HOME if place.partition("/")[0] in names]
    own = (
        str(places.own / "credentials"),
        str(places.credentials),
        str(places.config_home / "ide"),
    )
    system = SYSTEM_SECRETS if os.geteuid() == 0 else ()
    return real([path for path in (*paths, *own, *system) if os.path.lexists(path)])


def real(paths: Iterable[str]) -> tuple[str, ...]:
    return both([os.path.realpath(path) for path in paths], ())


def is_passed(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a command that runs without asking receives the variable `name`."""
    if name in VARIABLES or name.startswith("LC_"):
        return True
    return any(
        name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
        for pattern in patterns
    )
