"""The questions that a session asks a person, as dialogs: permission, plan, choices, trust, servers.

Owns what each says and what its answers mean. Must never decide: no answer is a no.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.agent.tools.patch import patch_of_texts
from clew.core.json_object import Json
from clew.core.messages.text import rejected_by_user
from clew.fronts.render import results
from clew.fronts.render.rows import Line, Row, Span, as_line, chopped, one_line, visible, wrapped
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.choosing import Body, Choice, Chooser, offered, take
from clew.fronts.terminal.first_run import EXPLANATION, QUESTION
from clew.fronts.terminal.stage import Stage
from clew.permissions.decision import Finding
from clew.permissions.in_session import SessionRules
from clew.system.files import content

# What a call would do, in whole, for the person who is asked: the command, the change, every field.


# A larger file is not read for a question; its change is shown by its fields.
READ_MAX_BYTES = 4 << 20
CHANGE = ("old_string", "new_string", "replace_all", "content", "edits")


class Proposed:
    """One call; what it needs of the disk is read once, when the question is asked."""

    def __init__(self, tool: str, given: Json, cwd: str) -> None:
        self._given = given
        self._path = str(given.get("file_path") or given.get("path") or "")
        self._patch: list[Json] | None = None
        self._content: str | None = None
        if tool in ("Edit", "MultiEdit", "Write") and self._path:
            self._read(tool, cwd)

    def _read(self, tool: str, cwd: str) -> None:
        path = Path(cwd, self._path)
        try:
            is_small = path.stat().st_size <= READ_MAX_BYTES
            before = content(path).decode("utf-8") if is_small else None
        except FileNotFoundError:
            before = ""
        except (OSError, UnicodeDecodeError):
            return
        after = None if before is None else changed(tool, before, self._given)
        if before and after is not None:
            self._patch = patch_of_texts(before, after) or None
        elif tool == "Write":
            self._content = after

    def rows(self, theme: Theme, width: int) -> Iterator[Row]:
        shown: tuple[str, ...] = ()
        if self._patch is not None and results.is_patch(self._patch):
            yield from self._head(theme, width, results.counted(self._patch))
            yield from results.rows_of(self._patch, self._path, theme, width)
            shown = (*CHANGE, "file_path", "path")
        elif self._content is not None:
            yield from self._head(theme, width, "a new file")
            yield from results.created(self._content, self._path, theme, width)
            shown = (*CHANGE, "file_path", "path")
        elif isinstance(command := self._given.get("command"), str):
            yield from marked("$ ", command, theme, width)
            shown = ("command",)
        for name, value in self._given.items():
            if name not in shown:
                yield from field(name, value, theme, width)

    def _head(self, theme: Theme, width: int, words: str) -> Iterator[Row]:
        head = [Span(one_line(self._path), theme["person"]), Span(f"  {words}", theme["quiet"])]
        return chopped(head, width)


def changed(tool: str, before: str, given: Json) -> str | None:
    """The text of the file behind the call; None where the call does not fit it."""
    if tool == "Write":
        return str(given.get("content", ""))
    edits = given.get("edits") if tool == "MultiEdit" else [given]
    for edit in edits if isinstance(edits, list) else ():
        old, new = edit.get("old_string"), edit.get("new_string")
        if not isinstance(old, str) or not isinstance(new, str) or not old or old not in before:
            return None
        before = before.replace(old, new, -1 if edit.get("replace_all") else 1)
    return before


def marked(mark: str, text: str, theme: Theme, width: int) -> Iterator[Row]:
    """Lines behind a mark, each where it stood."""
    for number, one in enumerate(visible(text).split("\n")):
        begin = Span(f"  {mark}" if number == 0 else "    ", theme["quiet"])
        for row in chopped([Span(one)], width - 4):
            yield [begin, *row]
            begin = Span("    ")


def field(name: str, value: Any, theme: Theme, width: int) -> Iterator[Row]:
    """A field of the input; one of several lines stands below its name."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(text)
    if "\n" not in text:
        yield from chopped([Span(f"  {one_line(name)}: ", theme["quiet"]), Span(text)], width)
        return
    yield [Span(f"  {one_line(name)}:", theme["quiet"])]
    yield from marked("  ", text, theme, width)


MARKS = {"allow": "    ok  ", "ask": "    ?   ", "review": "    ?   ", "deny": "    no  "}


class Dialogs:
    """`tell` is given what the person should know; `rules` are the session's, from its start on."""

    def __init__(self, stage: Stage, tell: Callable[[str], object]) -> None:
        self._stage = stage
        self._tell = tell
        self.rules: SessionRules | None = None
        # The folder the session is in, by which paths are read.
        self.cwd: Callable[[], str] = os.getcwd

    async def ask(self, question: Question) -> Verdict:
        """One call, one answer. No answer is a no that ends the turn."""
        match question.kind:
            case "choices":
                return await self._choices(question.block["input"])
            case "plan":
                return await self._plan(question.body)
            case "permission":
                return await self._permission(question)

    # -- permission

    async def _permission(self, question: Question) -> Verdict:
        more = offered(question, self.rules)
        choices = [
            Choice(label="yes, this once", key="y"),
            *(Choice(label=f"yes, and {o.words}", key=key) for key, o in more.items()),
            Choice(label="no, and stop", key="n"),
            Choice(label="no, and this is why", key="w", asks_words=True),
        ]
        whose = f"agent “{one_line(question.agent)}”: " if question.agent_id else ""
        title = f"{whose}{one_line(question.block['name'])} wants to run"
        answer = await self._stage.ask(Chooser(title, choices, body=self._body(question)))
        if answer is None:
            return Refused(words=rejected_by_user(), stop=True)
        key = choices[answer.chosen[0]].key
        if self.rules is not None and key in more:
            if trouble := take(more[key], self.rules):
                self._tell(trouble)
            return Granted()
        if key == "y":
            return Granted()
        if key == "w":
            return Refused(words=rejected_by_user(answer.words))
        return Refused(words=rejected_by_user(), stop=True)

    def _body(self, question: Question) -> Body:
        """The whole of what would run, why it asks, and the parts of a compound."""
        proposed = Proposed(question.block["name"], question.block["input"], self.cwd())

        def body(width: int) -> Sequence[Line]:
            lines = [as_line(row) for row in proposed.rows(self._stage.theme, width)]
            findings = question.decision.findings
            parts = {
                part(finding): PARTS[finding.verdict] for finding in findings if len(findings) > 1
            }
            why = visible(question.why)
            # What one of the parts says need not be said twice.
            is_told = any(words.endswith(f" {why}") for words in parts)
            begun = "  it asks because of what is marked ?" if is_told else f"  it asks: {why}"
            lines += self._lines(begun, width, "quiet")
            for words, style in parts.items():
                lines += self._lines(words, width, style)
            return lines

        return body

    def _lines(self, text: str, width: int, style: str) -> list[Line]:
        spans = [Span(text, self._stage.theme[style])]
        return [as_line(row) for row in wrapped(spans, width)]

    # -- plan and choices

    async def _plan(self, plan: str) -> Verdict:
        choices = [
            Choice(label="begin", key="y"),
            Choice(label="go on planning, and this is why", key="w", asks_words=True),
            Choice(label="stop here", key="n"),
        ]
        chooser = Chooser(
            "The plan is ready", choices, body=lambda width: self._lines(visible(plan), width, "")
        )
        answer = await self._stage.ask(chooser)
        if answer is None or choices[answer.chosen[0]].key == "n":
            return Refused(words=rejected_by_user(), stop=True)
        if choices[answer.chosen[0]].key == "y":
            return Granted()
        return Refused(words=rejected_by_user(f"keep planning: {answer.words}"))

    async def _choices(self, given: Json) -> Verdict:
        """Every question in turn: one answer, several, or words of the person's own."""
        answers: dict[str, str] = {}
        for asked in given["questions"]:
            options = [
                Choice(label=str(option["label"]), hint=str(option.get("description") or ""))
                for option in asked["options"]
            ]
            several = bool(asked.get("multiSelect"))
            own = Choice(label="in your own words", asks_words=True)
            chooser = Chooser(one_line(str(asked["question"])), [*options, own], several=several)
            answer = await self._stage.ask(chooser)
            if answer is None:
                return Refused(words=rejected_by_user(), stop=True)
            labels = [options[n].label for n in answer.chosen if n < len(options)]
            answers[asked["question"]] = answer.words or ", ".join(labels)
        return Granted(input=given | {"answers": answers})

    # -- before a session

    async def line(self, asked: str) -> str | None:
        """A few words; None if there are none."""
        own = Choice(label="answer", asks_words=True)
        answer = await self._stage.ask(Chooser(one_line(asked), [own]))
        return None if answer is None else answer.words

    async def trust(self, folder: str, waiting: Sequence[str]) -> bool:
        """Whether a folder's own settings may start programs."""
        choices = [
            Choice(label="yes, I trust what this folder's files would start", key="y"),
            Choice(label="no, go on without that", key="n"),
        ]
        told = "\n".join(f"  {visible(line)}" for line in waiting)
        words = f"Its settings would do this, and do not until you trust it:\n{told}"
        chooser = Chooser(
            f"Do you trust {one_line(folder)}?",
            choices,
            body=lambda width: self._lines(words, width, ""),
            at=1,
        )
        answer = await self._stage.ask(chooser)
        return answer is not None and answer.chosen == (0,)

    async def sandbox(self) -> bool | None:
        """Whether commands run in a sandbox: in every mode, in none; None: as it is by itself."""
        choices = [
            Choice(label="yes, in every mode", key="y"),
            Choice(label="in modes auto and acceptEdits only", key="a"),
            Choice(label="never", key="n"),
        ]
        chooser = Chooser(
            QUESTION,
            choices,
            body=lambda width: self._lines(f"  {EXPLANATION}", width, ""),
            at=1,
        )
        answer = await self._stage.ask(chooser)
        return None if answer is None or answer.chosen == (1,) else answer.chosen == (0,)

    async def server(self, name: str, reach: str) -> bool | None:
        """Whether a server that the project brings along may begin; None: not decided now."""
        choices = [
            Choice(label="yes, let it begin", key="y"),
            Choice(label="no", key="n"),
            Choice(label="decide later", key="l"),
        ]
        chooser = Chooser(
            f"The project brings along the MCP server {one_line(name)}; may it begin?",
            choices,
            body=lambda width: self._lines(f"  it is {visible(reach)}", width, ""),
            at=2,
        )
        answer = await self._stage.ask(chooser)
        if answer is None or answer.chosen == (2,):
            return None
        return answer.chosen == (0,)


PARTS = {"ask": "notice", "review": "notice", "deny": "error", "allow": "done"}


def part(finding: Finding) -> str:
    """One part of a compound, and what is to be said about it."""
    subject = f"{finding.subject}: " if finding.subject else ""
    return f"{MARKS[finding.verdict]}{visible(subject)}{visible(finding.reason)}"
