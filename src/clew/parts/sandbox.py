"""The sandbox of a session: what its settings, its folders and its mode come to, frozen at the start.

Frozen, because files that a command may write must not open the walls it stood behind; the mode alone
may change. Owns when walls are around a command, and what is said where there are none.
"""

import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.core.messages.errors import OutsideError
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
from clew.system.config.git_guard import WITHOUT_FETCHING, with_git_settings
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

# What a command that nobody was asked about finds in its environment, besides what settings name.
# Nothing that has another program or file run, and nothing that may hold a key.
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
        "CLEW",
        "CI",
        "GIT_EDITOR",
        # Which repository git reads; without them it would read another than approved commands do.
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
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
WORD = re.compile(r"[A-Za-z_]\w{2,}")
MISSING = (
    "Commands that nobody is asked about run without these variables: {names} (the user can pass them by "
    "sandbox.allowEnvironment)."
)
NO_WALLS = (
    "no read-only wall can be had here (Landlock needs Linux 6.2, bubblewrap is not installed): only a "
    "short list of commands runs without asking"
)
# What clew tells git of folders that are not trusted (see `system.config.git_guard`).
BARE = ("safe.bareRepository", "explicit")
# Differences within submodules, whose histories nobody searched for what is denied.
SHORTER = (("diff.submodule", "short"),)
SECRETS_AT_HOME = tuple(place.rstrip("/") for place in SECRET_PLACES)
# The modes in which it is on where settings say nothing.
OWN_MODES = ("auto", "acceptEdits")
NO_WALL = (
    "The command did not run: the read-only wall around commands that nobody is asked about does not "
    "stand here any more ({why})."
)
PROMISED = (
    "The command did not run: the settings promise a sandbox, and none works here ({why}). A person can "
    "install bubblewrap, or set sandbox.enabled to false in their own settings."
)


class SessionSandbox(Part):
    """The walls of a session: the sandbox, which `enabled` and the mode turn on, and the read-only wall
    around commands that nobody was asked about, which always is on where it can stand."""

    name = "sandbox"

    def __init__(
        self,
        rules: SessionRules,
        launcher: Launcher,
        *,
        hidden: Sequence[str],
        aside: Path,
    ) -> None:
        """`aside`: where that goes which a command made and programs would heed."""
        standing = rules.standing
        settings, faults = read_settings(standing.layers, home=standing.context.home)
        self._notices = faults
        self._aside = aside
        self._listing = Listing()
        self._rules = rules
        self._launcher = launcher
        self._settings = settings
        self._hidden = hidden
        self._began = rules.standing
        self._excluded = excluded_rules(settings, self._began)
        self._box: Box | None = None
        self._read_only: Box | None = None
        self._has_walls: bool | None = None
        # Why no read-only wall stands, once a command has tried.
        self.why_no_walls = ""
        # Of agents.
        self._checkouts: set[str] = set()
        self._denied = DeniedFiles(self._listing)
        # Variables that a command lacked, and the model knows.
        self._told_missing: set[str] = set()
        self._history: GitHistory | None = None
        rules.rely_on(self)

    @property
    def box(self) -> "Box":
        """Made when a command first needs it: most sessions have none. Raises `SandboxError`."""
        if self._box is None:
            self._box = self._made(policy_of(self._settings, self._began))
        return self._box

    @property
    def read_only(self) -> "Box":
        """The same for the read-only wall."""
        if self._read_only is None:
            self._read_only = self._made(SandboxPolicy(write=(), is_read_only=True))
        return self._read_only

    def _made(self, policy: SandboxPolicy) -> "Box":
        from clew.system.sandbox.box import Box

        return Box(policy, self._launcher, hidden=self._hidden)

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
        """Made when a command first asks git for contents: most sessions have none."""
        if self._history is None:
            from clew.permissions.git_history import GitHistory

            self._history = GitHistory(self._launcher, self._began.environ)
        return self._history.held(folder, held_against)

    async def look_up(self) -> bool:
        return self._history is not None and await self._history.look_up()

    async def news(self) -> tuple[str, ...]:
        """What people should know at the start."""
        news = () if self.has_walls else (NO_WALLS,)
        if self.is_wanted:
            try:
                await self.box.kind()
            except SandboxError as error:
                then = "no command will run" if self.is_promised else "commands run without one"
                news = (*news, f"no sandbox works here, {then}: {error}")
        return news

    async def page(self) -> list[tuple[str, str]]:
        """What holds here and why not, in rows."""
        await self.can_confine()
        kind = await self.read_only.kind() if self.has_walls else ""
        why = self.why_no_walls or "no Landlock of Linux 6.2, no bubblewrap"
        rows = [("read-only wall", f"holds ({kind})" if kind else f"cannot be had: {why}")]
        try:
            kind, weakness = await self.box.kind(), self.box.weakness
            rows.append(("sandbox", f"{self._switched}; {weakness or f'{kind} holds here'}"))
        except SandboxError as error:
            rows.append(("sandbox", f"{self._switched}; it cannot be had: {error}"))
        policy = self._policy(self._began.context.cwd)
        denied = len(self._shut("read"))
        rows += [
            ("may write", ", ".join(policy.write)),
            ("may not read", f"{len(policy.no_read)} places, {denied} of them by rules that deny"),
            ("may reach", ", ".join(policy.domains) or "no host"),
            ("outside", ", ".join(self._settings.excluded) or "no command"),
            ("variables", ", ".join(self._settings.variables) or "none named by settings"),
        ]
        return rows

    @property
    def _switched(self) -> str:
        """Whether the sandbox is on, and by whose word."""
        state = "on" if self.is_wanted else "off"
        if self._settings.enabled is None:
            return f"{state} in mode {self._rules.mode} (on by itself in {' and '.join(OWN_MODES)})"
        return f"{state} by the settings"

    def opens(self, tree: str) -> None:
        """An agent has a checkout of its own there."""
        self._checkouts.add(os.path.realpath(tree))

    def _shut(self, access: Access) -> tuple[str, ...]:
        """What deny rules name at this moment: those of the start, and those that came since."""
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
        """The policy of a command in a folder: an agent's own checkout is open to it, in the midst of
        `.claude`, but for what programs heed."""
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
                # git in a partial clone would start what fetches the missing part.
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
                    # Landlock grants whole trees: nothing inside of one is held.
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

    def _watched(self, policy: SandboxPolicy) -> list[str]:
        """The folders that may be written and that people work in."""
        own = (self.box.temp, *list_commit_paths(self._began.context.cwd))
        return [path for path in policy.write if path not in own and is_folder(Path(path))]

    def missing(self, text: str, walled: Walled) -> str:
        """A sentence about variables that a failed command names and did not get; each is told of once."""
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
        """Whether every part of a command is one that settings name as outside."""
        if self._excluded is None:
            return False
        # Loaded with the first call: they bring every reader of command lines.
        from clew.permissions.decide import judge
        from clew.permissions.files import Bench

        context, resolve = self._began.context, self._began.resolve
        bench = Bench(rules=self._excluded, context=context, resolve=resolve)
        parts = judge(bench, PermissionRequest(tool="Bash", input={"command": command}, line=line))
        return all(part.rule is not None for part in parts)

    def spared(self, call: BoundCall, decision: Decision) -> Decision:
        """A decision where the walls answer what only the mode would ask about."""
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
    """`excludedCommands` as rules: `docker` and `docker *` are that command with any arguments."""
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
    """What every wall of the sandbox is built from, but for what deny rules name on the disk."""
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
    """The secret places that are there now. Few are: the home folder is looked at first."""
    home, places = standing.context.home, standing.places
    names = {name for name, _ in listing.entries(home)}
    paths = [f"{home}/{place}" for place in SECRETS_AT_HOME if place.partition("/")[0] in names]
    own = (str(places.own / "credentials"), str(places.credentials))
    system = SYSTEM_SECRETS if os.geteuid() == 0 else ()
    return real([path for path in (*paths, *own, *system) if os.path.lexists(path)])


def real(paths: Iterable[str]) -> tuple[str, ...]:
    return both([os.path.realpath(path) for path in paths], ())


def is_passed(name: str, patterns: Sequence[str]) -> bool:
    """Whether a command that nobody was asked about finds a variable."""
    if name in VARIABLES or name.startswith("LC_"):
        return True
    return any(
        name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
        for pattern in patterns
    )
