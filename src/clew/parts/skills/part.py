"""The skills of a session: which are available, how one is called, and what it may do.

A skill's text is input for the model. Commands in it are subject to the same permissions as the
model's calls. Its permission rules apply only if the file is trusted: the user's own, or one in a
trusted folder or plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.agent.context.facts import Fact
from clew.agent.context.memory import matches, project_of
from clew.agent.context.nearby import find_touched_paths
from clew.agent.deps import Granted, Question
from clew.agent.hooks.handlers import Hook, read_hooks
from clew.agent.options import SOURCES
from clew.agent.tools.base import Tool, ToolError
from clew.agent.toolset import decide
from clew.core.input import Invoke, Outcome, SlashCommand
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.messages.history import History
from clew.core.nearest import find_nearest
from clew.parts.context import Ground
from clew.parts.mcp.part import Connected
from clew.parts.part import Part, PartContext
from clew.parts.plugins.part import managed_hooks_only
from clew.parts.skills.effects import LineRefusedError, SkillEffects, describe_way_out
from clew.parts.skills.folders import FromPlugin, SkillFolder, SkillLibrary, body_of, places_of
from clew.parts.skills.listing import (
    find_listed_names,
    make_kept_facts,
    make_listing_fact,
    search_skills,
)
from clew.parts.skills.skill import Origin, Skill
from clew.parts.skills.tool import LoadedSkill, SkillTool
from clew.permissions.decision import Allow, Ask, Decision, Deny, describe_reason, make_decision
from clew.system.clock import make_id
from clew.system.config.settings import read_switch

if TYPE_CHECKING:
    from clew.parts.mcp.catalogue import PromptOffer
    from clew.parts.mcp.server import McpServer


# Replaces a command in a skill's text where settings disable them.
DISABLED = "[clew did not run this command: disableSkillShellExecution is set]"

# Precedes the text of a skill that runs in a subagent, when the user calls it.
FORKED = (
    "Have an agent of the type {kind} do the following (Agent tool), and report its result.\n\n"
)


class SessionSkills(Part):
    """The session part for skills.

    The prompts of the MCP servers in `mcp` are treated as skills. See `want` for `wanted`.
    """

    name = "skills"
    _context: PartContext
    _effects: SkillEffects

    def __init__(
        self,
        ground: Ground,
        session_id: str,
        plugins: Sequence[FromPlugin],
        mcp: Connected,
        wanted: Sequence[str] | None = None,
    ) -> None:
        options, began = ground.options, ground.began
        sources = SOURCES if options.sources is None else options.sources
        root = project_of(began.places)

        def refuses(path: str, origin: Origin) -> str | None:
            """Return why a project's file is rejected, or None.

            It is rejected if it links to a path outside the project.
            """
            is_of_project = origin == "project"
            return (
                ground.gate.refusal_of_link(Path(path), root, "project") if is_of_project else None
            )

        places = places_of(began.places, sources, began.context.directories)
        self._shelf = SkillLibrary(places, plugins, refuses)
        self._rules = ground.rules
        # Whether the model can use skills at all.
        self._is_told = options.has_commands and not options.is_bare
        self._session_id = session_id
        self._mcp = mcp
        self.want(wanted)
        # Skills that are meant for certain files, at least one of which was used.
        self._woken: set[str] = set()
        self._seen: set[Path] = set()
        self._has_looked = False
        self._told_prompts: list[str] = []
        # Whether the files were reloaded since the last listing for the model.
        self._is_reloaded = False

    def want(self, names: Sequence[str] | None) -> None:
        """Limit the skills that the model may load to these names; None allows all of them."""
        self._wanted = None if names is None else frozenset(names)

    def reload(self, plugins: Sequence[FromPlugin] | None = None) -> None:
        """Search all folders again on the next use.

        If `plugins` is given, these plugins replace the previous ones.
        """
        if plugins is not None:
            self._shelf.replace_plugins(plugins)
        self._shelf.forget()
        self._is_reloaded = True

    async def open(self, context: PartContext, /) -> None:
        self._context = context
        self._effects = SkillEffects(context.ground.rules, context.speaking, context.hooks)
        context.thread.story.when_another(self.begin_again)

    def tools(self) -> tuple[Tool[Any], ...]:
        return (SkillTool(self),)

    async def facts(self, history: History, /) -> list[Fact]:
        return self.latecomers(history) if self._is_offered else []

    def after(self, results: Sequence[Json], /) -> list[Fact]:
        return self.beside(results, self._context.thread.story.history) if self._is_offered else []

    def notices(self) -> list[str]:
        return self.faults

    def take_back(self) -> None:
        """End the temporary changes that skills made."""
        self._effects.take_back()

    @property
    def _is_offered(self) -> bool:
        return self._context.requests.offers(SkillTool.name)

    def _prompts(self) -> list[tuple[McpServer, PromptOffer]]:
        return [
            (server, offer) for server in self._mcp.clients() for offer in server.offers.prompts
        ]

    def begin_again(self, _: object) -> None:
        """Start over with a different conversation, whose files determine which skills apply."""
        self._has_looked = False
        self._woken.clear()

    # -- available skills

    @property
    def faults(self) -> list[str]:
        hooked = [skill for skill in self._shelf.all().values() if skill.hooks]
        problems = [
            f"{skill.file}: {f}" for skill in hooked for f in read_hooks(skill.hooks).faults
        ]
        return [*self._shelf.faults, *problems]

    def all(self) -> list[Skill]:
        """Return all skills, each under the name by which it is called."""
        return [replace(skill, name=name) for name, skill in self._shelf.all().items()]

    def get(self, name: str) -> Skill | None:
        skill = self._shelf.all().get(name)
        return None if skill is None else replace(skill, name=name)

    def for_model(self) -> list[Skill]:
        """Return the skills that the model may load: those in files, and servers' prompts."""
        if not self._is_told:
            return []
        own = [
            skill
            for skill in self.all()
            if skill.for_model and (self._wanted is None or skill.name in self._wanted)
        ]
        return [*own, *(of_prompt(server, offer) for server, offer in self._prompts())]

    def commands(self) -> list[SlashCommand[Any]]:
        """Return the skills that the user may call, as slash commands."""
        return [self._command(skill) for skill in self.all() if skill.for_person]

    def _command(self, skill: Skill) -> SlashCommand[Any]:
        async def run(_: object, arguments: str) -> Outcome:
            try:
                text = await self._text(skill, arguments)
            except LineRefusedError as error:
                raise UserError(error.for_person) from None
            return Invoke(
                name=skill.name,
                arguments=arguments,
                text=FORKED.format(kind=skill.agent) * bool(skill.agent) + text,
                origin=record_of(skill),
            )

        about = skill.description or skill.file
        told_of = f"{about} ({skill.origin})" if skill.origin != "bundled" else about
        return SlashCommand(
            name=skill.name, description=told_of, run=run, hint=skill.hint, expands=skill.origin
        )

    # -- the model's listing

    def news(self, history: Iterable[Json]) -> Fact | None:
        """Return a fact that lists the skills that the model does not know yet, or None."""
        self._shelf.refresh()
        if not self._has_looked:
            # A resumed session has already used files.
            self._has_looked = True
            self._touch(list(dict.fromkeys(find_touched_paths(history))))
        known_names = find_listed_names(history)
        skills = [
            skill for skill in self.for_model() if not skill.paths or skill.name in self._woken
        ]
        return make_listing_fact(known_names, skills)

    def latecomers(self, history: Iterable[Json]) -> list[Fact]:
        """Return facts about skills that were added or removed since the last call.

        This covers the prompts of MCP servers, and skills in reloaded files.
        """
        prompts = [offer.name for _, offer in self._prompts()]
        if prompts == self._told_prompts and not self._is_reloaded:
            return []
        self._told_prompts, self._is_reloaded = prompts, False
        fact = self.news(history)
        return [] if fact is None else [fact]

    def beside(self, results: Sequence[Json], history: Iterable[Json]) -> list[Fact]:
        """Return facts about skills that become available because of the files in these results."""
        is_new = self._touch(list(dict.fromkeys(find_touched_paths(results))))
        fact = self.news(history) if is_new else None
        return [] if fact is None else [fact]

    def _touch(self, paths: Sequence[Path]) -> bool:
        """Record which files were used. Return whether this makes skills available."""
        is_woken, is_nested = self._wake(paths), self._nested(paths)
        return is_woken or is_nested

    def _wake(self, paths: Sequence[Path]) -> bool:
        root = self._rules.standing.places.root
        new = {
            skill.name
            for skill in self.all()
            if skill.paths
            and skill.name not in self._woken
            and any(matches(skill.paths, path, root) for path in paths)
        }
        self._woken |= new
        return bool(new)

    def _nested(self, paths: Iterable[Path]) -> bool:
        """Search the folders between the working folder and these files.

        Return whether any of these folders contains skills.
        """
        cwd = self._rules.standing.places.cwd
        below = {
            folder
            for path in paths
            for folder in path.parents
            if folder != cwd and folder.is_relative_to(cwd)
        }
        new, self._seen = below - self._seen, self._seen | below
        added = [
            self._shelf.add(SkillFolder(folder=folder / ".claude", origin="project"))
            for folder in sorted(new)
        ]
        return any(added)

    def kept(self, covered: Iterable[Json], kept_entries: Iterable[Json]) -> list[Fact]:
        """Return facts about active skills that a compaction to `kept_entries` would lose."""
        return make_kept_facts(covered, kept_entries)

    # -- for the Skill tool

    def fault(self, name: str) -> str:
        found_here = {skill.name for skill in self.for_model()}
        if name in found_here:
            return ""
        if self.get(name) is not None:
            return f"Only the user can call the skill {name}; ask the user to type /{name}."
        near = find_nearest(name, found_here)
        hint = f"did you mean {near}?" if near else "use `search` to find others."
        return f"Skill not found: {name!r}; {hint}"

    def search(self, query: str) -> Sequence[tuple[str, str]]:
        return [(skill.name, skill.description) for skill in search_skills(query, self.for_model())]

    async def load(self, name: str, arguments: str, *, lends: bool = True) -> LoadedSkill:
        for server, offer in self._prompts():
            if offer.name == name:
                from clew.parts.mcp.prompts import fetch_prompt

                text = await fetch_prompt(server, offer, arguments)
                return LoadedSkill(
                    text=text, record={"success": True, "skill": name, "source": "mcp"}
                )
        skill = self.get(name)
        if skill is None:
            raise ToolError(self.fault(name))
        text = await self._text(skill, arguments, lends=lends)
        record = {"success": True, "skill": name, "commandName": name, **record_of(skill)}
        record |= {"allowedTools": list(skill.allowed_tools)}
        return LoadedSkill(text=text, record=record, agent=skill.agent, model=skill.model)

    def spared(self, call: BoundCall, decision: Decision) -> Decision:
        """Return the decision, but allow searching for skills and loading one that only adds text.

        Loading such a skill is like reading a file.
        """
        if call.name != "Skill" or isinstance(decision, Allow):
            return decision
        arguments = call.block["input"]
        called = arguments.get("skill")
        skill = self.get(called.strip().removeprefix("/")) if isinstance(called, str) else None
        is_search = isinstance(arguments.get("search"), str) and bool(arguments["search"])
        if not is_search and (skill is None or self._lends(skill)):
            return decision
        return make_decision(
            [
                replace(part, verdict="allow", reason="only adds text to the conversation")
                if part.nature == "base"
                else part
                for part in decision.findings
            ]
        )

    def _lends(self, skill: Skill) -> bool:
        counts = self.counts(skill)
        return bool(
            (counts and (skill.allowed_tools or skill.hooks)) or skill.model or skill.effort
        )

    def _granted_by(self, skill: Skill) -> tuple[str, ...]:
        """Return the rules with which the skill allows calls, or none if the skill is untrusted."""
        if not self.counts(skill):
            return ()
        from clew.parts.skills.expand import fill_places

        places = self._places_of(skill)
        return tuple(fill_places(rule, places) for rule in skill.allowed_tools)

    def _hooks_of(self, skill: Skill) -> tuple[Hook, ...]:
        """Return the skill's hooks, or none if they may not run."""
        if not skill.hooks or not self.counts(skill):
            return ()
        if managed_hooks_only(self._rules.standing.layers) and skill.origin != "managed":
            return ()
        variables = (("CLAUDE_PLUGIN_ROOT", skill.plugin_root or skill.folder),)
        return read_hooks(skill.hooks, source=f"skill:{skill.name}", variables=variables).hooks

    def counts(self, skill: Skill) -> bool:
        """Return whether the skill's rules and hooks are trusted."""
        return skill.is_vouched and (skill.origin != "project" or self._rules.standing.is_trusted)

    # -- calling a skill

    def _places_of(self, skill: Skill) -> dict[str, str]:
        """Return the values of the placeholders in a skill's text and rules."""
        return {
            "CLAUDE_SESSION_ID": self._session_id,
            "CLAUDE_SKILL_DIR": skill.folder,
            "CLAUDE_PLUGIN_ROOT": skill.plugin_root,
            "CLAUDE_PROJECT_DIR": str(self._rules.standing.places.root),
        }

    async def _text(self, skill: Skill, arguments: str, *, lends: bool = True) -> str:
        """Run the commands in a called skill's text; return the text with their output inserted.

        Arguments are inserted too. With `lends`, the skill's permissions and hooks take effect.
        """
        try:
            body = body_of(skill)
        except OSError as error:
            raise ToolError(f"{skill.file}: {error.strerror}") from None
        from clew.parts.skills.expand import ExpansionCommand as Wanted
        from clew.parts.skills.expand import expand

        pieces = expand(body, arguments, names=skill.arguments, places=self._places_of(skill))
        if skill.origin not in ("managed", "bundled") and self._is_without_commands():
            pieces = [DISABLED if isinstance(piece, Wanted) else piece for piece in pieces]
        if lends:
            self._effects.apply(skill, self._granted_by(skill), self._hooks_of(skill))
        parts = [
            await self._printed(skill, piece.line) if isinstance(piece, Wanted) else piece
            for piece in pieces
        ]
        where = f"The files of this skill are in {skill.folder}\n\n" if skill.folder else ""
        return where + "".join(parts).strip()

    def _is_without_commands(self) -> bool:
        """Return whether any settings file disables commands in the text of skills."""
        layers = self._rules.standing.layers
        return any(read_switch(layer.data, "disableSkillShellExecution") for layer in layers)

    async def prepared(self, prompt: str) -> str:
        """Return an automatic prompt's text or, if the prompt calls a skill, the skill's text."""
        name, _, arguments = prompt.removeprefix("/").partition(" ")
        skill = self.get(name) if prompt.startswith("/") else None
        if skill is None:
            return prompt
        try:
            return await self._text(skill, arguments.strip())
        except ToolError as error:
            return f"{prompt}\n({error})"

    async def _printed(self, skill: Skill, line: str) -> str:
        """Run a command in a skill's text and return its output.

        A rule or the user must allow it.
        """
        tools, judge = self._context.tools, self._context.judge
        call = tools.bind(
            {
                "type": "tool_use",
                "id": f"toolu_{make_id()}",
                "name": skill.shell,
                "input": {"command": line},
            }
        )
        decision, is_confined = await decide(tools, call, judge)
        if not isinstance(decision, Allow):
            permitted = await self._permitted(skill, call, decision)
            if permitted is not call:
                # The approval was given for a different command, which it does not override.
                call = permitted
                decision, confined = await decide(tools, call, judge)
                if isinstance(decision, Deny):
                    raise ToolError(denied(skill, call, decision))
                is_confined = confined and isinstance(decision, Ask)
        outcome = await tools.run(
            call, message_uuid=make_id(), progress=unseen, is_confined=is_confined
        )
        printed = outcome.content if isinstance(outcome.content, str) else outcome.display
        return printed.strip("\n")

    async def _permitted(self, skill: Skill, call: BoundCall, decision: Decision) -> BoundCall:
        line = call.block["input"]["command"]
        refused = f"the command {line!r} of {skill.name} was denied"
        if isinstance(decision, Deny):
            raise ToolError(denied(skill, call, decision))
        reply = await self._context.ask(
            Question(
                block=call.block,
                line=call.line,
                title=f"/{skill.name} runs: {line}",
                decision=decision,
                why=f"{skill.file} runs this command before the model reads the skill",
            )
        )
        if not isinstance(reply, Granted):
            # A user who rejected it knows the reason; a host's message may be new to them.
            why = "" if reply.by_person else f": {reply.words}"
            if reply.is_nobodys:
                why = f": {describe_way_out(skill, line, counts=self.counts(skill))}"
            raise LineRefusedError(f"{refused}: {reply.words}", for_person=f"{refused}{why}")
        return call if reply.input is None else call.with_input(reply.input)


def denied(skill: Skill, call: BoundCall, decision: Deny) -> str:
    line = call.block["input"]["command"]
    return f"the command {line!r} of {skill.name} was denied: {describe_reason(decision)}"


async def unseen(_: Any) -> None:
    """Ignore a command's progress, because its entire output is inserted when it ends."""


def record_of(skill: Skill) -> Json:
    """Return a record of where a skill came from, for the transcript."""
    return {"kind": "skill", "name": skill.name, "source": skill.origin, "path": skill.file}


def of_prompt(server: McpServer, offer: PromptOffer) -> Skill:
    """Return an MCP server's prompt as a skill."""
    about = (offer.description or offer.prompt).split("\n")[0]
    takes = f" Takes: {offer.hint}" if offer.hint else ""
    return Skill(
        name=offer.name,
        origin="mcp",
        file="",
        description=f"{about} (MCP server {server.name}).{takes}",
    )
