"""The sandbox of a session: what its settings, its folders and its mode come to, frozen at the start.

Frozen, because files that a command may write must not open the walls it stood behind; the mode alone
may change. Owns when walls are around a command, and what is said where there are none.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.app.denied import denied
from clew.messages.errors import OutsideError
from clew.permissions.decision import Ask, Decision, NeedsReview, decided
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Request
from clew.permissions.rules import Anchors, Rejected, Rule, RuleSet, Source, parse_rule
from clew.permissions.session_rules import Standing
from clew.process.spawn import Launcher
from clew.sandbox.checkouts import written_by_commits
from clew.sandbox.policy import Policy, Settings, both, covers, read_settings
from clew.sandbox.walled import SandboxError, Walled
from clew.tools.base import ToolSession

if TYPE_CHECKING:
    from clew.sandbox.box import Box

# What the next program would run or heed that was not asked for: of every folder that may be written.
KEPT = (
    ".git/hooks", ".git/config", ".gitmodules", ".githooks", ".husky", ".mcp.json", ".vscode", ".idea",
    ".envrc", ".devcontainer",
)  # fmt: skip
# Where people keep what nobody else should read, of the home folder.
SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker/config.json", ".config/gcloud",
    ".config/gh", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".password-store",
)  # fmt: skip
PROMISED = (
    "The command did not run: the settings promise a sandbox, and none works here ({why}). A person can "
    "install bubblewrap, or set sandbox.enabled to false in their own settings."
)


class SessionSandbox:
    """`enabled` unsaid is mode auto's own: on where walls hold, and said where they do not."""

    def __init__(
        self, rules: SessionRules, launcher: Launcher, settings: Settings, *, hidden: Sequence[str]
    ) -> None:
        self._rules = rules
        self._launcher = launcher
        self._settings = settings
        self._hidden = hidden
        self._began = rules.standing
        self._excluded = excluded_rules(settings, self._began)
        self._box: Box | None = None
        # Of agents.
        self._checkouts: set[str] = set()

    @property
    def box(self) -> "Box":
        """Made when a command first needs it: most sessions have none. Raises `SandboxError`."""
        if self._box is None:
            from clew.sandbox.box import Box

            policy = policy_of(self._settings, self._began)
            self._box = Box(policy, self._launcher, hidden=self._hidden)
        return self._box

    async def aclose(self) -> None:
        if self._box is not None:
            self._box.close()

    @property
    def is_wanted(self) -> bool:
        if self._settings.enabled is None:
            return self._rules.mode == "auto"
        return self._settings.enabled

    @property
    def is_promised(self) -> bool:
        return self._settings.enabled is True and self._settings.must_work is not False

    async def news(self) -> tuple[str, ...]:
        """What people should know at the start."""
        if not self.is_wanted:
            return ()
        try:
            await self.box.kind()
        except SandboxError as error:
            then = "no command will run" if self.is_promised else "commands run without one"
            return (f"no sandbox works here, {then}: {error}",)
        return ()

    def opens(self, tree: str) -> None:
        """An agent has a checkout of its own there."""
        self._checkouts.add(os.path.realpath(tree))

    def _policy(self, cwd: str) -> Policy:
        """The policy of a command in a folder: an agent's own checkout is open to it, in the midst of
        `.claude`, but for what programs heed."""
        policy, here = self.box.policy, os.path.realpath(cwd)
        tree = next((tree for tree in self._checkouts if covers((tree,), here)), None)
        if tree is None:
            return policy
        there = [path for one in KEPT if os.path.lexists(path := f"{tree}/{one}")]
        no_write = both((*policy.no_write, f"{tree}/.claude"), there)
        return replace(
            policy, write=(*policy.write, tree, *written_by_commits(tree)), no_write=no_write
        )

    @asynccontextmanager
    async def around(
        self, command: str, argv: Sequence[str], cwd: str, environment: Mapping[str, str]
    ) -> AsyncIterator[Walled]:
        async with AsyncExitStack() as opened:
            made = Walled(argv=tuple(argv), environment=dict(environment))
            if self.is_wanted and not self.is_excluded(command):
                try:
                    policy = self._policy(cwd)
                    made = await opened.enter_async_context(
                        self.box.around(argv, cwd, environment, policy=policy)
                    )
                except SandboxError as error:
                    if self.is_promised:
                        raise OutsideError(PROMISED.format(why=error)) from None
            yield made

    def note(self, output: str, walled: Walled, cwd: str) -> str:
        from clew.sandbox.violations import found, words

        return words(
            found(
                output,
                self._policy(cwd),
                cwd=cwd,
                home=self._began.context.home,
                refused=walled.refused,
            )
        )

    def is_excluded(self, command: str) -> bool:
        """Whether every part of a command is one that settings name as outside."""
        if self._excluded is None:
            return False
        # Loaded with the first call: they bring every reader of command lines.
        from clew.permissions.decide import judge
        from clew.permissions.files import Bench

        context, resolve = self._began.context, self._began.resolve
        bench = Bench(rules=self._excluded, context=context, resolve=resolve)
        parts = judge(bench, Request(tool="Bash", input={"command": command}))
        return all(part.rule is not None for part in parts)

    def spared(self, name: str, given: Mapping[str, object], decision: Decision) -> Decision:
        """A decision where the walls answer what only the mode would ask about."""
        spares = self._settings.spares_questions
        is_on = self._settings.enabled is True if spares is None else spares
        command = given.get("command")
        if name != "Bash" or not isinstance(decision, Ask | NeedsReview) or not is_on:
            return decision
        stands = self._box is not None and self._box.works
        if not (self.is_wanted and stands and isinstance(command, str)):
            return decision
        if self.is_excluded(command):
            return decision
        return decided(
            [
                replace(part, verdict="allow", reason="runs in the sandbox")
                if part.nature == "base" and part.verdict in ("ask", "review")
                else part
                for part in decision.findings
            ]
        )


def excluded_rules(settings: Settings, standing: Standing) -> RuleSet | None:
    """`excludedCommands` as rules: `docker` and `docker *` are that command with any arguments."""
    rules: list[Rule] = []
    for pattern in settings.excluded:
        texts = [pattern] if "*" in pattern else [pattern, f"{pattern} *"]
        for text in texts:
            rule = parse_rule(
                f"Bash({text})", "allow", root=standing.context.cwd, source=Source(scope="session")
            )
            if not isinstance(rule, Rejected):
                rules.append(rule)
    if not rules:
        return None
    return RuleSet(rules, anchors=Anchors(cwd=standing.context.cwd, home=standing.context.home))


def policy_of(settings: Settings, standing: Standing) -> Policy:
    """The one value that every wall is built from."""
    context, files = standing.context, settings.files

    def real(paths: Sequence[str]) -> tuple[str, ...]:
        return both([os.path.realpath(path) for path in paths], ())

    outside = [path for root in context.roots for path in written_by_commits(root)]
    roots = real((*context.roots, *outside, *files.write))
    there = [f"{root}/{name}" for root in roots for name in KEPT]
    kept = [f"{root}/.claude" for root in context.roots]
    return Policy(
        write=roots,
        no_write=real(
            (
                *files.no_write,
                *kept,
                *filter(os.path.exists, there),
                context.config_home,
                *denied(standing, "edit"),
            )
        ),
        no_read=real(
            (
                *files.no_read,
                *(f"{context.home}/{name}" for name in SECRETS),
                str(standing.places.own / "credentials"),
                str(standing.places.credentials),
                *denied(standing, "read"),
            )
        ),
        read=real(files.read),
        domains=settings.network.domains,
        no_domains=settings.network.no_domains,
        unix_sockets=settings.network.unix_sockets,
    )


def session_sandbox(
    rules: SessionRules,
    launcher: Launcher,
    tools: ToolSession,
    *,
    hidden: Sequence[str],
) -> tuple[SessionSandbox, tuple[str, ...]]:
    """The sandbox of a session, and what is wrong with its settings."""
    standing = rules.standing
    settings, faults = read_settings(standing.layers, home=standing.context.home)
    sandbox = SessionSandbox(rules, launcher, settings, hidden=hidden)
    tools.sandbox = sandbox
    return sandbox, faults
