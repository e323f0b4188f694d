"""The skills of a session: which there are, what calling one comes to, and what it may do.

A skill's text is words for the model. What it wants run is judged like a call of the model's; the rules
it brings count only where a person vouches for the file: their own, or a trusted folder's or plugin's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
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
from clew.parts.context import Ground
from clew.parts.mcp.part import Connected
from clew.parts.part import Part, PartContext
from clew.parts.plugins.part import managed_hooks_only
from clew.parts.skills.folders import FromPlugin, SkillFolder, SkillLibrary, body_of, places_of
from clew.parts.skills.lent import Lent, LineRefusedError, describe_way_out
from clew.parts.skills.listing import (
    find_listed_names,
    make_kept_facts,
    make_listing_fact,
    search_skills,
)
from clew.parts.skills.skill import Origin, Skill
from clew.parts.skills.tool import LoadedSkill, SkillTool
from clew.permissions.decision import Allow, Decision, Deny, describe_reason, make_decision
from clew.system.clock import make_id

if TYPE_CHECKING:
    from clew.parts.mcp.catalogue import PromptOffer
    from clew.parts.mcp.server import McpServer


# What stands before the text of a skill that is an agent's to do, where a person calls it.
FORKED = (
    "Have an agent of the kind {kind} do what follows (tool Agent), and tell what came of it.\n\n"
)


class SessionSkills(Part):
    """`mcp`: the prompts of its servers are skills too. `wanted`: see `want`."""

    name = "skills"
    _context: PartContext
    _lent: Lent

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
            """A project's file that leads out of it is nobody's skill."""
            is_of_project = origin == "project"
            return (
                ground.gate.refusal_of_link(Path(path), root, "project") if is_of_project else None
            )

        places = places_of(began.places, sources, began.context.directories)
        self._shelf = SkillLibrary(places, plugins, refuses)
        self._rules = ground.rules
        # Whether the model has any part in it.
        self._is_told = options.has_commands and not options.is_bare
        self._session_id = session_id
        self._mcp = mcp
        self.want(wanted)
        # Those for certain files, of which one was touched.
        self._woken: set[str] = set()
        self._seen: set[Path] = set()
        self._has_looked = False
        self._told_prompts: list[str] = []
        # Whether files were looked into again since the model was told of them.
        self._is_reloaded = False

    def want(self, names: Sequence[str] | None) -> None:
        """Only these are the model's, by name; None: all."""
        self._wanted = None if names is None else frozenset(names)

    def reload(self, plugins: Sequence[FromPlugin] | None = None) -> None:
        """Looks into all files again; those of `plugins` in place of the plugins' before."""
        if plugins is not None:
            self._shelf.replace_plugins(plugins)
        self._shelf.forget()
        self._is_reloaded = True

    async def open(self, context: PartContext, /) -> None:
        self._context = context
        self._lent = Lent(context.ground.rules, context.speaking, context.hooks)
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
        """Ends what skills changed until the next prompt."""
        self._lent.take_back()

    @property
    def _is_offered(self) -> bool:
        return self._context.requests.offers(SkillTool.name)

    def _prompts(self) -> list[tuple[McpServer, PromptOffer]]:
        return [
            (server, offer) for server in self._mcp.clients() for offer in server.offers.prompts
        ]

    def begin_again(self, _: object) -> None:
        """The conversation is another: what it touched decides anew."""
        self._has_looked = False
        self._woken.clear()

    # -- which there are

    @property
    def faults(self) -> list[str]:
        hooked = [skill for skill in self._shelf.all().values() if skill.hooks]
        problems = [
            f"{skill.file}: {f}" for skill in hooked for f in read_hooks(skill.hooks).faults
        ]
        return [*self._shelf.faults, *problems]

    def all(self) -> list[Skill]:
        """Every skill under the name it is called by."""
        return [replace(skill, name=name) for name, skill in self._shelf.all().items()]

    def get(self, name: str) -> Skill | None:
        skill = self._shelf.all().get(name)
        return None if skill is None else replace(skill, name=name)

    def for_model(self) -> list[Skill]:
        """Those the model may load: of files as far as they are for it, and the prompts of servers."""
        if not self._is_told:
            return []
        own = [
            skill
            for skill in self.all()
            if skill.for_model and (self._wanted is None or skill.name in self._wanted)
        ]
        return [*own, *(of_prompt(server, offer) for server, offer in self._prompts())]

    def commands(self) -> list[SlashCommand[Any]]:
        """Those a person may call, as commands."""
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

    # -- what the model is told

    def news(self, history: Iterable[Json]) -> Fact | None:
        """The skills that the conversation does not know of yet."""
        self._shelf.refresh()
        if not self._has_looked:
            # A session that goes on has been in folders, and has read files.
            self._has_looked = True
            self._touch(list(dict.fromkeys(find_touched_paths(history))))
        known_names = find_listed_names(history)
        skills = [
            skill for skill in self.for_model() if not skill.paths or skill.name in self._woken
        ]
        return make_listing_fact(known_names, skills)

    def latecomers(self, history: Iterable[Json]) -> list[Fact]:
        """What is to be told of what came or went since this was asked last: prompts of servers, and skills
        of files that were looked into again."""
        prompts = [offer.name for _, offer in self._prompts()]
        if prompts == self._told_prompts and not self._is_reloaded:
            return []
        self._told_prompts, self._is_reloaded = prompts, False
        fact = self.news(history)
        return [] if fact is None else [fact]

    def beside(self, results: Sequence[Json], history: Iterable[Json]) -> list[Fact]:
        """What is to be told of skills that wait for the files that these results were about."""
        is_new = self._touch(list(dict.fromkeys(find_touched_paths(results))))
        fact = self.news(history) if is_new else None
        return [] if fact is None else [fact]

    def _touch(self, paths: Sequence[Path]) -> bool:
        """Whether files bring skills that were not there before."""
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
        """Whether folders between the working folder and a file bring skills of their own."""
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
        """What a conversation must still know of which `kept_entries` is left: the skills that are at work."""
        return make_kept_facts(covered, kept_entries)

    # -- what the Skill tool needs

    def fault(self, name: str) -> str:
        found_here = {skill.name for skill in self.for_model()}
        if name in found_here:
            return ""
        if self.get(name) is not None:
            return f"The skill {name} is for people to call; ask the person to type /{name}."
        near = get_close_matches(name, found_here, n=1)
        hint = f"did you mean {near[0]}?" if near else "`search` finds others by their words."
        return f"There is no skill {name!r}; {hint}"

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
        """A decision about loading a skill that brings nothing but words: it is a file that is read."""
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
                replace(part, verdict="allow", reason="brings words alone")
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
        """The rules that count of those a skill brings."""
        return skill.allowed_tools if self.counts(skill) else ()

    def _hooks_of(self, skill: Skill) -> tuple[Hook, ...]:
        """The hooks that count of those a skill brings."""
        if not skill.hooks or not self.counts(skill):
            return ()
        if managed_hooks_only(self._rules.standing.layers) and skill.origin != "managed":
            return ()
        variables = (("CLAUDE_PLUGIN_ROOT", skill.plugin_root or skill.folder),)
        return read_hooks(skill.hooks, source=f"skill:{skill.name}", variables=variables).hooks

    def counts(self, skill: Skill) -> bool:
        """Whether somebody vouches for what a skill brings besides words."""
        return skill.is_vouched and (skill.origin != "project" or self._rules.standing.is_trusted)

    # -- calling one

    async def _text(self, skill: Skill, arguments: str, *, lends: bool = True) -> str:
        """The text of a skill that was called, with all that it asks for put in."""
        try:
            body = body_of(skill)
        except OSError as error:
            raise ToolError(f"{skill.file}: {error.strerror}") from None
        from clew.parts.skills.expand import ExpansionCommand as Wanted
        from clew.parts.skills.expand import expand

        places = {
            "CLAUDE_SESSION_ID": self._session_id,
            "CLAUDE_SKILL_DIR": skill.folder,
            "CLAUDE_PLUGIN_ROOT": skill.plugin_root,
            "CLAUDE_PROJECT_DIR": str(self._rules.standing.places.root),
        }
        pieces = expand(body, arguments, names=skill.arguments, places=places)
        if lends:
            self._lent.to(skill, self._granted_by(skill), self._hooks_of(skill))
        parts = [
            await self._printed(skill, piece.line) if isinstance(piece, Wanted) else piece
            for piece in pieces
        ]
        where = f"The files of this skill are in {skill.folder}\n\n" if skill.folder else ""
        return where + "".join(parts).strip()

    async def prepared(self, prompt: str) -> str:
        """A prompt that comes by itself: the text of a skill where it calls one, else as it is."""
        name, _, arguments = prompt.removeprefix("/").partition(" ")
        skill = self.get(name) if prompt.startswith("/") else None
        if skill is None:
            return prompt
        try:
            return await self._text(skill, arguments.strip())
        except ToolError as error:
            return f"{prompt}\n({error})"

    async def _printed(self, skill: Skill, line: str) -> str:
        """What a command of a skill's text prints. Nobody typed it, so a rule or a person must allow it."""
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
            call = await self._permitted(skill, call, decision)
        outcome = await tools.run(
            call, message_uuid=make_id(), progress=unseen, is_confined=is_confined
        )
        printed = outcome.content if isinstance(outcome.content, str) else outcome.display
        return printed.strip("\n")

    async def _permitted(self, skill: Skill, call: BoundCall, decision: Decision) -> BoundCall:
        line = call.block["input"]["command"]
        refused = f"{skill.name} wants to run {line!r}, which was refused"
        if isinstance(decision, Deny):
            raise ToolError(f"{refused}: {describe_reason(decision)}")
        reply = await self._context.ask(
            Question(
                block=call.block,
                line=call.line,
                title=f"/{skill.name} runs: {line}",
                decision=decision,
                why=f"{skill.file} wants it run before the model reads it",
            )
        )
        if not isinstance(reply, Granted):
            # A person who said no knows that; what hosts say may be news.
            why = "" if reply.by_person else f": {reply.words}"
            if reply.is_nobodys:
                why = f": {describe_way_out(skill, line, counts=self.counts(skill))}"
            raise LineRefusedError(f"{refused}: {reply.words}", for_person=f"{refused}{why}")
        return call if reply.input is None else call.with_input(reply.input)


async def unseen(_: Any) -> None:
    """How far a command is; what it printed is shown whole."""


def record_of(skill: Skill) -> Json:
    """How the log says whose words a skill's text is."""
    return {"kind": "skill", "name": skill.name, "source": skill.origin, "path": skill.file}


def of_prompt(server: McpServer, offer: PromptOffer) -> Skill:
    """A prompt of a server as a skill."""
    about = (offer.description or offer.prompt).split("\n")[0]
    takes = f" Takes: {offer.hint}" if offer.hint else ""
    return Skill(
        name=offer.name,
        origin="mcp",
        file="",
        description=f"{about} (MCP server {server.name}).{takes}",
    )
