"""The hooks of a session: those in the current settings, and the services that hooks may use."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from clew.agent.calls import bind, run_tool
from clew.agent.context.facts import Fact
from clew.agent.context.nearby import TELLING, TRIGGER
from clew.agent.hooked import plain
from clew.agent.hooks.handlers import HookListing, read_hooks, read_layers
from clew.agent.hooks.reach import AskModel, HookError, Reach
from clew.agent.hooks.run import Here, SessionHooks
from clew.agent.options import Options
from clew.agent.side_question import SMALL, SideQuestions
from clew.agent.tools.base import Progress, ToolContext
from clew.core.input import Clear, Resume
from clew.core.json_object import Json
from clew.core.messages.errors import SettingsError
from clew.parts.context import Ground, HostParts, Thread
from clew.parts.mcp.part import Connected
from clew.parts.part import Part, PartContext
from clew.parts.plugins.part import SessionPlugins, managed_hooks_only
from clew.permissions.in_session import SessionRules
from clew.permissions.resolver import make_resolver
from clew.permissions.session_rules import CurrentRules
from clew.permissions.updates import UnreadableUpdates, read_updates
from clew.record.transcript.loaded import LoadedSession
from clew.system.config.layers import Scope
from clew.system.config.settings import read_list, read_number

# Events that only a front end can detect: the reason a session ends, and an idle prompt.


LEFT_AT_PROMPT = (0, 130)


class SessionEnding:
    """The reason that hooks receive when a session ends: `other`, unless the front end sets it."""

    def __init__(self) -> None:
        self.reason = "other"

    def followed_by(self, then: object) -> None:
        """Set the reason according to what follows: opening another session, or an exit code."""
        match then:
            case Clear():
                self.reason = "clear"
            case Resume():
                self.reason = "resume"
            case int() if then in LEFT_AT_PROMPT:
                self.reason = "prompt_input_exit"


class Idle:
    """Notifies hooks, once, if the user does not react to an answer for some time."""

    def __init__(
        self,
        hooks: SessionHooks,
        settings: Callable[[], Mapping[str, Any]],
        touched_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Create the timer; `touched_s` returns the monotonic time of the last keystroke."""
        self._hooks = hooks
        self._settings = settings
        self._touched_s = touched_s
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the timer; called when an answer has been shown."""
        self.end()
        if self._hooks.hears("Notification"):
            self._look_in(self._patience_s)

    def end(self) -> None:
        """Stop the timer, because the user has reacted or left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _patience_s(self) -> float:
        wished: int = read_number(self._settings(), "messageIdleNotifThresholdMs")
        return wished / 1000

    def _look_in(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        left_s = self._touched_s() + self._patience_s - time.monotonic()
        if left_s > 0:
            self._look_in(left_s)
            return
        self._timer = None
        self._hooks.tell(
            "Notification",
            {
                "message": "clew is waiting for your input",
                "title": "Waiting for you",
                "notification_type": "idle_prompt",
            },
        )


# The names of settings layers in ConfigChange events.
SOURCES: dict[Scope, str] = {
    "managed": "policy_settings",
    "user": "user_settings",
    "project": "project_settings",
    "local": "local_settings",
}
NESTED = "nested_traversal"
# How long the session's end waits for hooks that were started without waiting.
LAST_WAIT_S = 1.5


class HookSettings:
    """The hooks in the current settings, which are parsed again only when the settings change."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        self._standing: CurrentRules | None = None
        self._found = HookListing()

    @property
    def found(self) -> HookListing:
        standing = self._rules.standing
        if standing is not self._standing:
            self._found = read_layers(standing.layers)
            self._standing = standing
        return self._found

    def here(self, cwd: str) -> Here:
        context = self._rules.standing.context
        resolve = make_resolver(cwd=os.path.realpath(cwd), home=context.home)
        return Here(found=self.found, context=context, resolve=resolve)

    async def refresh(self, hooks: SessionHooks) -> tuple[str, ...]:
        """Reload changed settings, unless a hook refuses the change.

        Return notices and any new errors in hooks.
        """
        changes = self._rules.changes()
        if not changes:
            return ()
        refused: list[Scope] = []
        before = self.found.faults
        for scope, path in changes:
            fields = {"source": SOURCES[scope], "file_path": str(path)}
            outcome = await hooks.aside("ConfigChange", fields)
            # A hook can't refuse changes to managed settings.
            if outcome.block is not None and scope != "managed":
                refused.append(scope)
        notes = self._rules.refresh(refused)
        return (*notes, *(fault for fault in self.found.faults if fault not in before))


class HooksPart(SessionHooks, Part):
    """The session part for hooks from settings, plugins, the host and the session's agent."""

    name = "hooks"

    def __init__(
        self,
        ground: Ground,
        thread: Thread,
        plugins: SessionPlugins,
        mcp: Connected,
        ask_agent: AskModel,
        brought: HostParts,
    ) -> None:
        self.settings = settings = HookSettings(ground.rules)
        self.ending = SessionEnding()
        self._ground = ground
        self._thread = thread
        self._mcp = mcp
        self._context: PartContext | None = None
        results = thread.recorder.paths.results
        super().__init__(
            Reach(
                launcher=ground.launcher,
                environment=lambda: ground.environ,
                project=ground.cwd,
                cwd=self._cwd,
                transport=ground.service.provider.transport,
                ask_model=asking(thread.side),
                ask_agent=ask_agent,
                call_tool=self._call_tool,
                secrets=ground.secrets,
                env_file=choose_env_file(results),
                spill=lambda text: spill_text(results, text),
                allowed_urls=lambda: read_list(
                    ground.rules.standing.settings, "allowedHttpHookUrls"
                ),
                allowed_variables=lambda: read_list(
                    ground.rules.standing.settings, "httpHookAllowedEnvVars"
                ),
            ),
            read_state=lambda: settings.here(self._cwd()),
            base=self._base_fields,
            effort=lambda: None if self._context is None else self._context.speaking.effort_now,
        )
        self.add(brought.hooks)
        self._plugin_faults = plugins.hook(self, ground.began.layers)
        lead = ground.options.lead
        if lead is not None and not managed_hooks_only(ground.began.layers):
            self.add(read_hooks(lead.hooks, source="agent").hooks)

    async def open(self, context: PartContext, /) -> None:
        self._context = context
        await self.__aenter__()

    async def aclose(self) -> None:
        await self.__aexit__()

    def notices(self) -> tuple[str, ...]:
        return (*self.settings.found.faults, *self._plugin_faults)

    async def refresh(self) -> tuple[str, ...]:
        return await self.settings.refresh(self)

    async def begin_session(self, reload_skills: Callable[[], None]) -> None:
        """Fire SessionStart, without waiting for its hooks; the first prompt waits for them."""
        options, thread = self._ground.options, self._thread
        if options.setup:
            await self.aside("Setup", {"trigger": options.setup})
        self.begin(describe_start(options, thread.loaded, thread.model.id), reload_skills)

    async def end_session(self) -> None:
        await self.settled(LAST_WAIT_S)
        await self.fire("SessionEnd", {"reason": self.ending.reason}, ignore_event)

    async def may(self, event: str, fields: Json) -> str:
        """Fire an event that hooks may block. Return the reason if a hook blocks it, else ""."""
        outcome = await self.fire(event, fields, ignore_event)
        return "" if outcome.block is None else outcome.block or "no reason given"

    def _cwd(self) -> str:
        return self._ground.cwd if self._context is None else self._context.tool_session.cwd

    def _base_fields(self) -> Json:
        recorder = self._thread.recorder
        return {
            "session_id": recorder.writer.session_id,
            "transcript_path": str(recorder.transcript),
            "cwd": self._cwd(),
            "permission_mode": self._ground.rules.mode,
        }

    async def _call_tool(self, server: str, tool: str, arguments: Json) -> tuple[str, bool]:
        """Call an MCP tool for a hook. Return the result as text, and whether it is an error."""
        servers = self._mcp.servers
        mcp_server = None if servers is None else servers.get(server)
        if servers is None or mcp_server is None or self._context is None:
            raise HookError(f'MCP server "{server}" not found')
        await mcp_server.settled()
        for offered in servers.tools():
            offer = getattr(offered, "offer", None)
            if offer is not None and (offer.server, offer.tool) == (server, tool):
                session = self._context.tool_session
                context = ToolContext(session=session, emit=ignore_progress, tool_use_id="hook")
                call = bind(offered, {"name": offered.name, "input": arguments})
                result = await run_tool(call, context)
                return plain(result.content), result.is_error
        why = mcp_server.problem or f'tool "{tool}" not found'
        raise HookError(f"MCP server {server}: {why}")


def asking(side: SideQuestions) -> Callable[[str, str], Any]:
    async def ask(prompt: str, model: str) -> str:
        answer = await side.ask_model(prompt, model=model or SMALL)
        if not isinstance(answer, str):
            raise HookError(f"the model could not answer: {answer.message}")
        return answer

    return ask


def spill_text(folder: Path, text: str) -> Path | None:
    """Save oversized text to a file; return the file's path, or None if it can't be written."""
    path = folder / f"hook-{os.urandom(8).hex()}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return None
    return path


async def ignore_progress(_: Progress) -> None:
    """Ignore the progress of a hook's tool."""


def choose_env_file(folder: Path) -> Path:
    """Return the file in which hooks set variables; every shell reads it before a command."""
    return folder / "hook-env.sh"


def make_granter(rules: SessionRules) -> Callable[[list[Json]], str]:
    """Return a function that applies a hook's permission updates.

    The function returns an error message, or an empty string.
    """

    def grant(permission_updates: list[Json]) -> str:
        updates = read_updates(permission_updates)
        if isinstance(updates, UnreadableUpdates):
            return updates.why
        try:
            rules.update(updates)
        except (SettingsError, OSError) as error:
            return str(error)
        return ""

    return grant


async def ignore_event(_: object) -> None:
    """Ignore an event; nothing is displayed while a tool asks or a session ends."""


def report_loaded(hooks: SessionHooks, facts: Iterable[Fact], reason: str) -> None:
    """Notify hooks of the memory files that these facts add to the context."""
    for fact in facts:
        if fact.payload.get("type") in TELLING and hooks.hears("InstructionsLoaded"):
            touched = fact.payload.get(TRIGGER)
            trigger = {} if touched is None else {"trigger_file_path": touched}
            for file in fact.payload["files"]:
                hooks.tell("InstructionsLoaded", about_memory(file, reason) | trigger)


def about_memory(file: Json, reason: str) -> Json:
    fields = {"file_path": file["path"], "memory_type": file["type"], "load_reason": reason}
    if "globs" in file:
        fields["globs"] = file["globs"]
        if reason == NESTED:
            fields["load_reason"] = "path_glob_match"
    if "importedBy" in file:
        fields |= {"load_reason": "include", "parent_file_path": file["importedBy"]}
    return fields


def describe_start(options: Options, loaded: LoadedSession | None, model: str) -> Json:
    """Return the fields of the SessionStart event for this start of a session."""
    lead = {} if options.lead is None else {"agent_type": options.lead.name}
    if loaded is None:
        source = "clear" if options.is_cleared else "startup"
        return {"source": source, "model": model, **lead}
    return {"source": "fork" if options.fork else "resume", "model": model, **lead}
