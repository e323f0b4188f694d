"""The questions that clew asks a user at the keyboard.

They concern permissions, plans, the model's questions, trust, the sandbox and MCP servers. This
module defines the wording of the questions and the meaning of the answers; a view shows them.
Nothing is decided without the user: if there is no answer, nothing is approved.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.core.json_object import Json
from clew.core.messages.errors import SettingsError, describe_error
from clew.core.messages.text import describe_user_rejection
from clew.fronts.dialog import Body, Choice, Dialog, DialogAnswer
from clew.fronts.render.rows import escape_controls, join_lines
from clew.permissions.decision import Finding, describe_reason, merge_by_command
from clew.permissions.in_session import SessionRules
from clew.permissions.request import MCP_PREFIX, Mode, domain_of
from clew.permissions.suggest import LastingAnswer, list_lasting_answers
from clew.permissions.updates import Update
from clew.system.files import is_there

# The keys of the answer that lasts for the session, and of the answer that is saved.
FOR_NOW, KEPT = "s", "a"
# The modes that plan mode can return to only with the user's word; the others are always offered.
OWN_MODES: dict[Mode, str] = {"auto": "auto mode", "bypassPermissions": "bypass mode"}

SANDBOX_QUESTION = "Run the commands that you approve in a sandbox?"
SANDBOX_EXPLANATION = (
    "A sandboxed command can write only to this folder and a temporary one, can't read secrets, and "
    "can reach only the hosts that you allow. Read-only commands always run in a stricter sandbox. "
    "/permissions sandbox shows what applies here; sandbox.enabled in your settings changes it."
)

TRUST_EXPLANATION = "Its files define the following, which clew ignores until you trust the folder:"


class Questions:
    """Asks the user questions.

    `tell` shows a message to the user. `rules` are the permission rules of the session; None until
    a session is open.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self.rules: SessionRules | None = None
        # The session's folder, to which paths are relative.
        self.cwd: Callable[[], str] = os.getcwd
        # The mode to return to after planning.
        self.mode_before_plan: Callable[[], Mode] = lambda: "default"

    async def choose(self, dialog: Dialog) -> DialogAnswer | None:
        """Show a dialog and return the answer, or None if the user gives none."""
        raise NotImplementedError

    async def choose_all(self, dialogs: Sequence[Dialog]) -> list[DialogAnswer] | None:
        """Show related dialogs and return an answer to each, or None if one has no answer."""
        answers = []
        for dialog in dialogs:
            answer = await self.choose(dialog)
            if answer is None:
                return None
            answers.append(answer)
        return answers

    def draw_plan(self, _: str) -> Body | None:
        """Return a drawing of a plan in Markdown, or None if the view does not draw."""
        return None

    def draw(self, _: Question) -> Body | None:
        """Return a function that draws the effect of a call, or None if the view does not draw."""
        return None

    async def ask(self, question: Question) -> Verdict:
        """Ask about one call. If there is no answer, the call is rejected and the turn ends."""
        match question.kind:
            case "choices":
                return await self._choices(question.block["input"])
            case "plan":
                return await self._plan(question.body)
            case "permission":
                return await self._permission(question)

    async def _chosen(self, dialog: Dialog) -> tuple[str, str]:
        """Show a dialog; return the selected choice's key and the typed text, both "" if none."""
        answer = await self.choose(dialog)
        return ("", "") if answer is None else (dialog.choices[answer.chosen[0]].key, answer.words)

    async def _permission(self, question: Question) -> Verdict:
        lasting_answers, body = {}, None
        title = f"Allow {join_lines(str(question.block['name']))}?"
        if not question.is_elsewhere:
            body, title = self.draw(question), make_title(question.block, self.cwd())
            if self.rules is not None:
                lasting_answers = offer_answers(question, self.rules)
        whose = f"Agent “{join_lines(question.agent)}”: " if question.agent_id else ""
        dialog = Dialog(
            title=f"{whose}{title}",
            text=f"{format_input(question.block['input'], self.cwd())}\n"
            f"{describe_approval(question)}{describe_ide(question)}",
            body=body,
            choices=[
                Choice(label="Yes", key="y"),
                *(
                    Choice(
                        label=f"Yes, and {o.after or o.words}", compact=f"Yes, {o.compact}", key=key
                    )
                    for key, o in lasting_answers.items()
                ),
                no("No, and stop the turn"),
            ],
        )
        key, words = await self._chosen(dialog)
        if self.rules is not None and key in lasting_answers:
            if trouble := take(lasting_answers[key].update, self.rules):
                self._tell(trouble)
            return Granted()
        return verdict_of(key, words)

    async def _plan(self, plan: str) -> Verdict:
        """Ask whether to start working on a plan, and in which mode."""
        modes: dict[str, Mode] = {"y": "default", "a": "acceptEdits"}
        choices = [
            Choice(label="Yes, and ask before each edit", key="y"),
            Choice(label="Yes, and auto-accept edits", key="a"),
        ]
        before = self.mode_before_plan()
        if before in OWN_MODES:
            modes["s"] = before
            choices.append(Choice(label=f"Yes, and return to {OWN_MODES[before]}", key="s"))
        choices.append(no("No, keep planning", words_label="No, change this"))
        dialog = Dialog(
            title="Start working on this plan?",
            choices=choices,
            text=plan,
            body=self.draw_plan(plan),
        )
        key, words = await self._chosen(dialog)
        if key not in modes:
            return verdict_of(key, f"keep planning: {words}" if words else "")
        if self.rules is not None:
            try:
                self.rules.set_mode(modes[key])
            except SettingsError as error:
                self._tell(describe_error(error))
                self.rules.set_mode("default")
        return Granted()

    async def _choices(self, arguments: Json) -> Verdict:
        """Ask the model's questions.

        The answer to each is one option, several options, or the user's own text.
        """
        dialogs = [make_dialog(item) for item in arguments["questions"]]
        chosen = await self.choose_all(dialogs)
        if chosen is None:
            return Refused(words=describe_user_rejection(), stop=True)
        answers = {
            item["question"]: describe_answer(dialog, answer)
            for item, dialog, answer in zip(arguments["questions"], dialogs, chosen, strict=True)
        }
        return Granted(input=arguments | {"answers": answers})

    # -- before a session

    async def line(self, prompt: str) -> str | None:
        """Ask for a line of text; return None if the user gives none."""
        own = Choice(label="Answer", asks_words=True)
        answer = await self.choose(Dialog(title=join_lines(prompt), choices=[own]))
        return None if answer is None else answer.words

    async def trust(self, folder: str, pending: Sequence[str]) -> bool:
        """Ask whether to trust a folder's own settings. `pending` says what they run or allow."""
        choices = [
            Choice(label="Yes, trust this folder", key="y"),
            Choice(label="No, continue without it", key="n", refuses=True),
        ]
        listing = "\n".join(f"  {line}" for line in pending)
        words = f"{TRUST_EXPLANATION}\n{listing}"
        title = f"Do you trust {join_lines(folder)}?"
        key, _ = await self._chosen(Dialog(title=title, choices=choices, text=words, at=1))
        return key == "y"

    async def sandbox(self) -> bool | None:
        """Ask in which permission modes commands run in a sandbox.

        Return True for every mode and False for none. Return None for the default modes, or if
        there is no answer.
        """
        choices = [
            Choice(label="Yes, in every permission mode", key="y"),
            Choice(label="Only in the auto and accept edits modes", key="a"),
            Choice(label="Never", key="n", refuses=True),
        ]
        text = f"  {SANDBOX_EXPLANATION}"
        dialog = Dialog(title=SANDBOX_QUESTION, choices=choices, text=text, at=1)
        key, _ = await self._chosen(dialog)
        return {"y": True, "n": False}.get(key)

    async def server(self, name: str, reach: str) -> bool | None:
        """Ask whether to start an MCP server that the project defines.

        Return None if the user postpones the decision.
        """
        choices = [
            Choice(label="Yes, start it", key="y"),
            Choice(label="No", key="n", refuses=True),
            Choice(label="Ask me next time", key="l"),
        ]
        title = f"Start the MCP server “{join_lines(name)}” defined by this project?"
        target = reach.removeprefix("(").removesuffix(")")
        dialog = Dialog(title=title, choices=choices, text=f"  Command or URL: {target}", at=2)
        key, _ = await self._chosen(dialog)
        return {"y": True, "n": False}.get(key)


def no(label: str, words_label: str = "No, instead") -> Choice:
    """Return the choice that rejects a call, optionally with the user's instructions."""
    return Choice(
        label=label, compact="No", key="n", words_key="w", words_label=words_label, refuses=True
    )


def make_dialog(item: Json) -> Dialog:
    """Return the dialog for one of the model's questions."""
    options = [
        Choice(label=str(option["label"]), hint=str(option.get("description") or ""))
        for option in item["options"]
    ]
    return Dialog(
        title=join_lines(str(item["question"])),
        header=join_lines(str(item.get("header") or "")),
        choices=[*options, Choice(label="Other", asks_words=True)],
        several=bool(item.get("multiSelect")),
    )


def describe_answer(dialog: Dialog, answer: DialogAnswer) -> str:
    """Return the answer to one of the model's questions as text."""
    labels = [dialog.choices[n].label for n in answer.chosen if not dialog.choices[n].asks_words]
    return answer.words or ", ".join(labels)


def show_path(path: str, cwd: str) -> str:
    """Return a path as the user would type it: relative to the session's folder if it is inside."""
    full = Path(cwd, path)
    return join_lines(str(full.relative_to(cwd)) if full.is_relative_to(cwd) else path)


def make_title(call: Json, cwd: str) -> str:
    """Return the question that a permission prompt asks about a tool call."""
    name, arguments = str(call["name"]), call["input"]
    path = str(arguments.get("file_path") or arguments.get("notebook_path") or "")
    shown = show_path(path, cwd) if path else ""
    match name:
        case "Bash" | "PowerShell":
            return "Run this command?"
        case "Write" if shown:
            return f"{'Overwrite' if is_there(Path(cwd, path)) else 'Create'} {shown}?"
        case "Edit" | "MultiEdit" | "NotebookEdit" if shown:
            return f"Make this edit to {shown}?"
        case "Read" | "NotebookRead" if shown:
            return f"Read {shown}?"
        case "WebFetch":
            domain = domain_of(str(arguments.get("url") or ""))
            return f"Fetch {join_lines(domain)}?" if domain else "Fetch this page?"
        case "WebSearch":
            return "Search the web?"
        case "Skill" if arguments.get("skill"):
            return f"Use the skill {join_lines(str(arguments['skill']))}?"
    if name.startswith(MCP_PREFIX) and name.count("__") > 1:
        server, _, tool = name.removeprefix(MCP_PREFIX).partition("__")
        return f"Call {join_lines(tool)} of the MCP server {join_lines(server)}?"
    return f"Allow {join_lines(name)}?"


def describe_why(question: Question) -> str:
    """Return why a call needs approval, without repeating what the prompt already shows."""
    findings = question.decision.findings
    if question.why != describe_reason(question.decision) or len(findings) != 1:
        return question.why
    return findings[0].reason


def list_parts(question: Question) -> list[Finding]:
    """Return the verdict on each part of a compound command, or nothing for any other call."""
    findings = merge_by_command(question.decision.findings)
    return findings if len(findings) > 1 else []


# The verdicts on parts, in words.
VERDICTS = {
    "allow": "allowed",
    "ask": "needs approval",
    "review": "needs approval",
    "deny": "denied",
}


def describe_approval(question: Question) -> str:
    """Return in lines why a call needs approval, with the verdict on each part of a compound."""
    why, parts = describe_why(question), list_parts(question)
    lines = []
    for part in parts:
        words = filter(None, (VERDICTS[part.verdict], part.subject, part.reason))
        lines.append(f"    {': '.join(words)}")
    # A reason that one of the parts gives is not repeated.
    is_told = any(line.endswith(f" {why}") for line in lines)
    return "\n".join(["  Parts of the command:" if is_told else f"  Needs approval: {why}", *lines])


def describe_ide(question: Question) -> str:
    """Return a line that names the editor in which the user can also answer, if there is one."""
    ide = join_lines(question.ide)
    return f"\n  Or answer in {ide}: save the diff to accept, close it to reject" if ide else ""


def verdict_of(key: str, words: str) -> Verdict:
    """Return the verdict for an answer: approval, rejection with a reason, or plain rejection."""
    if key == "y":
        return Granted()
    if words:
        return Refused(words=describe_user_rejection(words))
    return Refused(words=describe_user_rejection(), stop=True)


def lasting_answers(question: Question, rules: SessionRules) -> list[LastingAnswer]:
    """Return the available answers that also apply to later calls."""
    return list(list_lasting_answers(question.request, question.decision, rules.mode))


def offer_answers(question: Question, rules: SessionRules) -> dict[str, LastingAnswer]:
    """Return the lasting answers, each under the key that selects it."""
    return {KEPT if o.is_kept else FOR_NOW: o for o in lasting_answers(question, rules)}


def take(update: Update, rules: SessionRules) -> str:
    """Apply a lasting answer; return a message if it cannot be saved.

    The call itself is allowed even if the answer cannot be saved.
    """
    try:
        rules.update([update], is_by_user=True)
    except (SettingsError, OSError) as error:
        return describe_error(error)
    return ""


# Inputs that are shown relative to the session's folder.
PATHS = ("file_path", "notebook_path", "path")


def format_input(arguments: Json, cwd: str) -> str:
    """Format every field of a call's input in full, because the user approves all of it."""
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = show_path(text, cwd) if name in PATHS else text
        lines += [f"    {name}: {line}" for line in text.split("\n")]
    return escape_controls("\n".join(lines))
