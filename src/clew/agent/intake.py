"""Turn typed or piped input into actions, in the same way for all front ends.

A prompt becomes a message together with the content of the files and resources it mentions. `!line`
becomes two messages, the command and its output. `# text` is added to the memory file, and `/name`
runs a command. Everything runs through the same tools and rules as the model's calls. By typing a
line, the user has approved it, but a deny rule still applies. With `--print`, no user has approved
anything: a line that would need approval doesn't run, so that a program can pass untrusted text as
a prompt.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.agent.context.facts import Fact
from clew.agent.context.nearby import make_file_fact, make_folder_fact, make_note_fact
from clew.agent.deps import Emit, Toolset
from clew.agent.events import Noticed, Printed, ToolStarted
from clew.agent.tasks.notice import describe_background_start
from clew.agent.tools.base import ToolSession
from clew.agent.toolset import SessionTools, decide
from clew.core.input import (
    Clear,
    CompactSession,
    ExitSession,
    Invoke,
    MemoryNote,
    Mention,
    Outcome,
    Pasted,
    Pick,
    Prompt,
    Resume,
    Rewound,
    Shell,
    Show,
    SubmitPrompt,
    TypedCommand,
    make_content,
    name_prompt,
    parse,
)
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.messages.text import wrap_in_tag
from clew.permissions.decision import Allow, Decision, Deny, describe_reason
from clew.permissions.in_session import SessionRules
from clew.record.transcript.paths import get_project_dir
from clew.system.clock import get_timestamp, make_id
from clew.system.config.paths import Places
from clew.system.config.settings import read_text
from clew.system.files import find_way_out, is_folder, is_there

AS_TEXT = "start the line with a space to send it as text"
NO_FILE = "file or folder not found; sent as plain text"


class Raw(Struct, frozen=True, kw_only=True):
    """One input as it was typed or piped in.

    `more` was piped in after the text and is never parsed for commands or mentions.
    """

    text: str
    more: str = ""
    pasted: tuple[Pasted, ...] = ()
    by_person: bool = False
    # Whether a line that begins with # is a note, although no user typed it into a prompt.
    takes_notes: bool = False
    # Whether the sender can switch to another session or end this one.
    is_lasting: bool = False


class Turn(Struct, frozen=True, kw_only=True):
    """A prompt for the model, and the entries that go with it."""

    prompt: str | list[Json]
    context: list[Json] = []


Taken: TypeAlias = Turn | Show | Clear | Resume | ExitSession | CompactSession | Pick | Rewound
RunCommand: TypeAlias = Callable[[TypedCommand], Awaitable[Outcome | None]]


def ignore_note(_: Json) -> None:
    """Record nothing, for an intake without a transcript."""


async def no_resource(_: str) -> Fact | None:
    return None


class Intake:
    """Turns each input of a session into an action.

    Its only state is a list of facts that the model receives with the next prompt.
    """

    def __init__(
        self,
        *,
        tools: Toolset,
        judge: Callable[[BoundCall], Decision],
        path_of: Callable[[str], Path],
        may_read: Callable[[str], Callable[[str], bool]],
        memory_file: Callable[[], Path],
        now: Callable[[], str],
        new_id: Callable[[], str],
        resource: Callable[[str], Awaitable[Fact | None]] = no_resource,
        note: Callable[[Json], None] = ignore_note,
        refuses_note: Callable[[Path], str] = lambda _: "",
    ) -> None:
        self._tools = tools
        self._judge = judge
        self._path_of = path_of
        self._may_read = may_read
        self._memory_file = memory_file
        # Returns why no note may be added to a file, or an empty string.
        self._refuses_note = refuses_note
        self._now = now
        self._new_id = new_id
        self._resource = resource
        # Records a system entry in the transcript.
        self._note = note
        # Facts for the model, sent with the next prompt.
        self._waiting: list[Fact] = []

    def tell(self, fact: Fact) -> None:
        """Add a fact to those that the model receives with the next prompt."""
        self._waiting.append(fact)

    def remembered(self, path: Path, words: str) -> None:
        """Record that a memory was saved, and add it to what the model receives."""
        self.tell(make_note_fact(path, words))
        self._note(
            factories.make_system(
                "memory_saved", uuid=self._new_id(), at=self._now(), writtenPaths=[str(path)]
            )
        )

    async def take(self, raw: Raw, emit: Emit, run_command: RunCommand) -> Taken:
        """Handle `raw` and return the action to take. The turn that follows records the input.

        `run_command` returns None for an unknown command name; the line may then be meant as a
        prompt.
        """
        meant = parse(raw.text, takes_notes=raw.by_person or raw.takes_notes)
        match meant:
            case Prompt():
                return await self._prompt(raw, meant, emit)
            case TypedCommand():
                return await self._command(raw, meant, emit, run_command)
            case Shell():
                return await self._shell(raw, meant, emit)
            case MemoryNote():
                return self._remember(meant)
            case _:
                assert_never(meant)

    # -- prompts

    async def _prompt(self, raw: Raw, meant: Prompt, emit: Emit) -> Turn:
        text = "\n".join(part for part in (meant.text, raw.more) if part)
        facts, self._waiting = self._waiting, []
        for mention in meant.mentions:
            fact = await self._mentioned(mention, raw, emit)
            if fact is not None:
                facts.append(fact)
        return Turn(prompt=make_content(text, raw.pasted), context=[self._entry(f) for f in facts])

    def _entry(self, fact: Fact) -> Json:
        return factories.make_attachment(
            fact.payload,
            uuid=self._new_id(),
            at=self._now(),
            rendered=fact.rendered,
            role=fact.role,
        )

    async def _mentioned(self, mention: Mention, raw: Raw, emit: Emit) -> Fact | None:
        """Read what a mention refers to, and return it, or None if it is missing or unreadable."""
        target = self._found(mention)
        if target is None:
            fact = await self._elsewhere(mention)
            name = mention.paths[0]
            # A name without an extension in a command file may be a package.
            is_file = name in raw.text or "." in name.rpartition("/")[2]
            if fact is None and mention.is_path and is_file:
                await emit(Noticed(messages=(f"@{name}: {NO_FILE}",)))
            return fact
        label, path = target
        is_listed = is_folder(path)
        call = (
            self._call("LS", {"path": str(path)})
            if is_listed
            else self._call("Read", _span(path, mention))
        )
        refused, _ = await self._refused(call, raw)
        if refused:
            await emit(Noticed(messages=(f"@{label} was not read: {refused}",)))
            return None
        if is_listed:
            try:
                return make_folder_fact(path, label, self._may_read(str(path)))
            except OSError as error:
                await emit(Noticed(messages=(f"@{label} was not read: {error}",)))
                return None
        outcome = await self._run(call)
        if outcome.is_error:
            await emit(Noticed(messages=(f"@{label} was not read: {outcome.display}",)))
            return None
        return make_file_fact(path, label, outcome.content, outcome.tool_use_result)

    async def _elsewhere(self, mention: Mention) -> Fact | None:
        """Return the content of a mention that is not a file but, say, an MCP server's resource.

        Return None if there is no such content.
        """
        for reading in mention.paths:
            fact = await self._resource(reading)
            if fact is not None:
                return fact
        return None

    def _found(self, mention: Mention) -> tuple[str, Path] | None:
        for reading in mention.paths:
            try:
                path = self._path_of(reading)
                if is_there(path):
                    return reading, path
            except (OSError, ValueError):
                continue  # a name that no file can have
        return None

    # -- the shell

    async def _shell(self, raw: Raw, meant: Shell, emit: Emit) -> Taken:
        if raw.more:
            return Show(text=f"!{meant.line} accepts no piped input; {AS_TEXT}", is_error=True)
        call = self._call("Bash", {"command": meant.line})
        refused, is_confined = await self._refused(call, raw)
        if refused:
            return Show(text=f"!{meant.line} did not run: {refused}; {AS_TEXT}", is_error=True)
        await emit(ToolStarted(block=call.block, title=f"! {meant.line}"))
        outcome = await self._run(call, is_confined=is_confined)
        printed = outcome.content if isinstance(outcome.content, str) else outcome.display
        await emit(Printed(text=describe_background_start(printed) or printed))
        streams = ("", printed) if outcome.is_error else (printed, "")
        text = "".join(
            wrap_in_tag(name, text)
            for name, text in zip(("bash-stdout", "bash-stderr"), streams, strict=True)
        )
        # The output of a program is not the user's text.
        origin: Json = {"kind": "shell-output"}
        raw_result = outcome.tool_use_result
        if isinstance(raw_result, dict) and raw_result.get("backgroundedByUser") is True:
            # The command continues. A later run finds it by this entry, as it does for the model's
            # calls.
            task = {"id": raw_result["backgroundTaskId"], "toolUseId": call.block["id"]}
            origin["task"] = task | {"command": meant.line}
        entry = factories.make_user(text, uuid=self._new_id(), at=self._now(), origin=origin)
        waiting, self._waiting = self._waiting, []
        return Turn(
            prompt=wrap_in_tag("bash-input", meant.line),
            context=[entry, *(self._entry(fact) for fact in waiting)],
        )

    def _call(self, tool: str, arguments: Json) -> BoundCall:
        tool_id = f"toolu_{self._new_id()}"
        return self._tools.bind(
            {"type": "tool_use", "id": tool_id, "name": tool, "input": arguments}
        )

    async def _refused(self, call: BoundCall, raw: Raw) -> tuple[str, bool]:
        """Return why a call may not run (or an empty string), and whether it must be sandboxed.

        A command that the user types runs without the read-only sandbox.
        """
        decision, is_confined = await decide(self._tools, call, self._judge)
        if raw.by_person and not isinstance(decision, Deny):
            return "", False
        return ("" if isinstance(decision, Allow) else describe_reason(decision)), is_confined

    async def _run(self, call: BoundCall, *, is_confined: bool = False) -> Any:
        async def unseen(_: Any) -> None:
            """Ignore progress, because the entire outcome is shown at the end."""

        return await self._tools.run(
            call, message_uuid=self._new_id(), progress=unseen, is_confined=is_confined
        )

    # -- notes and commands

    def _remember(self, meant: MemoryNote) -> Show:
        path = self._memory_file()
        why = self._refuses_note(path)
        if why:
            return Show(text=f"can't write {path}: {why}", is_error=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            add_line(path, f"- {meant.words}")
        except OSError as error:
            return Show(text=f"can't write {path}: {error}", is_error=True)
        self.remembered(path, meant.words)
        return Show(text=f"added to {path}")

    async def _command(
        self, raw: Raw, meant: TypedCommand, emit: Emit, run_command: RunCommand
    ) -> Taken:
        outcome = await run_command(meant)
        if outcome is None:
            return await self._prompt(raw, parse_as_prompt(raw.text), emit)
        if isinstance(outcome, SubmitPrompt):
            if outcome.said:
                await emit(Noticed(messages=(outcome.said,)))
            meant_as = parse_as_prompt(outcome.text)
            if outcome.by_stranger:
                meant_as = Prompt(text=outcome.text)
            return await self._prompt(raw, meant_as, emit)
        if isinstance(outcome, Invoke):
            return await self._called(raw, outcome, emit)
        return outcome

    async def _called(self, raw: Raw, called: Invoke, emit: Emit) -> Turn:
        """Return a turn with the typed line, the text it expands to, and the mentioned files."""
        meant = parse_as_prompt("\n\n".join(part for part in (called.text, raw.more) if part))
        turn = await self._prompt(replace(raw, more=""), meant, emit)
        text = factories.make_user(
            turn.prompt,
            uuid=self._new_id(),
            at=self._now(),
            is_meta=True,
            origin=called.origin,
        )
        typed = "\n".join(
            (
                wrap_in_tag("command-message", called.name),
                wrap_in_tag("command-name", f"/{called.name}"),
                wrap_in_tag("command-args", called.arguments),
            )
        )
        return Turn(prompt=typed, context=[text, *turn.context])


def parse_as_prompt(text: str) -> Prompt:
    """Parse a line as a prompt, even if it begins like a command."""
    meant = parse(f" {text}", takes_notes=False)
    assert isinstance(meant, Prompt)
    return Prompt(text=text, mentions=meant.mentions)


def _span(path: Path, mention: Mention) -> Json:
    arguments: Json = {"file_path": str(path)}
    if mention.first is not None and mention.last is not None:
        arguments |= {"offset": mention.first, "limit": mention.last - mention.first + 1}
    return arguments


def add_line(path: Path, line: str) -> None:
    """Append a line to a user's file, which may not exist yet or may not end with a newline."""
    with path.open("a+b") as file:
        end = file.seek(0, 2)
        if end:
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())


def title_of(prompt: str | Sequence[Json]) -> str:
    """Return a short title for a prompt, by which the user recognizes it."""
    text = prompt if isinstance(prompt, str) else " ".join(str(b.get("text", "")) for b in prompt)
    return name_prompt(text)


# Setting up a session's intake: the tools and rules that lines of input go through.


MEMORY_FILE = "CLAUDE.md"
# The values of the setting `notesFile`: fixed words, so that a project can't name any other file.
NOTES = ("project", "local", "user")


def find_memory_folder(places: Places) -> Path:
    """Return the project's memory folder, which its sessions share."""
    return get_project_dir(places.config_home, str(places.root)) / "memory"


def find_notes_file(rules: SessionRules) -> Path:
    """Return the memory file that notes are added to."""
    standing = rules.standing
    match read_text(standing.settings, "notesFile"):
        case "local":
            return standing.places.root / "CLAUDE.local.md"
        case "user":
            return standing.places.config_home / MEMORY_FILE
        case _:
            return standing.places.root / MEMORY_FILE


def why_no_note(rules: SessionRules, path: Path) -> str:
    """Return why no note may be added: a link in an untrusted folder could lead to any file."""
    standing = rules.standing
    if standing.is_trusted or not path.is_relative_to(standing.places.root):
        return ""
    leads_to = find_way_out(path, standing.places.root)
    return f"it is a link to {leads_to}, and this folder is not trusted" if leads_to else ""


def make_intake(
    tools: SessionTools,
    judge: Callable[[BoundCall], Decision],
    tool_session: ToolSession,
    rules: SessionRules,
    resource: Callable[[str], Awaitable[Fact | None]],
    note: Callable[[Json], None],
) -> Intake:
    return Intake(
        tools=tools,
        judge=judge,
        path_of=tool_session.path,
        may_read=rules.may_read,
        memory_file=lambda: find_notes_file(rules),
        refuses_note=lambda path: why_no_note(rules, path),
        now=get_timestamp,
        new_id=make_id,
        resource=resource,
        note=note,
    )
