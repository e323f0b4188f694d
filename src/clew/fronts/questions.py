"""The questions that clew asks a user at the keyboard.

They concern permissions, plans, the model's questions, trust, the sandbox and MCP servers. This
module defines how they are worded and what the answers mean; a view shows them. Nothing is decided
without the user: no answer means no.
"""

import json
from collections.abc import Callable, Sequence

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.core.json_object import Json
from clew.core.messages.errors import SettingsError, describe_error
from clew.core.messages.text import describe_user_rejection
from clew.fronts.dialog import Body, Choice, Dialog, DialogAnswer
from clew.fronts.render.rows import escape_controls, join_lines
from clew.permissions.in_session import SessionRules
from clew.permissions.suggest import LastingAnswer, list_lasting_answers
from clew.permissions.updates import Update

# The keys of the answer that lasts for the session, and of the answer that is saved.
FOR_NOW, KEPT = "s", "a"
NOT_YET = "Rule saved. It applies to later sessions once you trust this folder: clew config trust"

SANDBOX_QUESTION = "Run the commands that you approve in a sandbox?"
SANDBOX_EXPLANATION = (
    "A sandboxed command can write only to this folder and a temporary one, can't read secrets, and "
    "can reach only the hosts that you allow. Read-only commands always run in a stricter sandbox. "
    "/permissions sandbox shows what applies here; sandbox.enabled in your settings changes it."
)

TRUST_EXPLANATION = (
    "These settings can run programs or allow tools (ignored until you trust the folder):"
)


class Questions:
    """Asks the user questions.

    `tell` shows a message to the user. `rules` are the permission rules of the session; None until
    a session is open.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self.rules: SessionRules | None = None

    async def choose(self, dialog: Dialog) -> DialogAnswer | None:
        """Show a dialog and return the answer, or None if the user gives none."""
        raise NotImplementedError

    def draw(self, _: Question) -> Body | None:
        """Return a function that draws what a call would do, or None if the view does not draw."""
        return None

    async def ask(self, question: Question) -> Verdict:
        """Ask about one call. Without an answer, the call is rejected and the turn ends."""
        match question.kind:
            case "choices":
                return await self._choices(question.block["input"])
            case "plan":
                return await self._plan(question.body)
            case "permission":
                return await self._permission(question)

    async def _chosen(self, dialog: Dialog) -> tuple[str, str]:
        """Return the key of the selected choice and the typed text, both empty without an answer."""
        answer = await self.choose(dialog)
        return ("", "") if answer is None else (dialog.choices[answer.chosen[0]].key, answer.words)

    async def _permission(self, question: Question) -> Verdict:
        lasting_answers = {} if self.rules is None else offer_answers(question, self.rules)
        whose = f"Agent “{join_lines(question.agent)}”: " if question.agent_id else ""
        dialog = Dialog(
            title=f"{whose}{make_title(question.block)}",
            text=f"{format_input(question.block['input'])}\n  Needs approval: {question.why}",
            body=self.draw(question),
            choices=[
                Choice(label="Yes", key="y"),
                *(
                    Choice(label=f"Yes, and {o.words}", key=key)
                    for key, o in lasting_answers.items()
                ),
                Choice(label="No, and stop the turn", key="n"),
                Choice(label="No, and tell clew what to do instead", key="w", asks_words=True),
            ],
        )
        key, words = await self._chosen(dialog)
        if self.rules is not None and key in lasting_answers:
            if trouble := take(
                lasting_answers[key].update, self.rules, is_kept=lasting_answers[key].is_kept
            ):
                self._tell(trouble)
            return Granted()
        return verdict_of(key, words)

    async def _plan(self, plan: str) -> Verdict:
        choices = [
            Choice(label="Yes, start", key="y"),
            Choice(label="No, keep planning (say what to change)", key="w", asks_words=True),
            Choice(label="No, stop", key="n"),
        ]
        key, words = await self._chosen(
            Dialog(title="Start working on this plan?", choices=choices, text=plan)
        )
        return verdict_of(key, f"keep planning: {words}")

    async def _choices(self, arguments: Json) -> Verdict:
        """Ask the model's questions in order.

        The answer to each is one option, several options, or the user's own text.
        """
        answers: dict[str, str] = {}
        for item in arguments["questions"]:
            options = [
                Choice(label=str(option["label"]), hint=str(option.get("description") or ""))
                for option in item["options"]
            ]
            own = Choice(label="Other (type your answer)", asks_words=True)
            answer = await self.choose(
                Dialog(
                    title=join_lines(str(item["question"])),
                    choices=[*options, own],
                    several=bool(item.get("multiSelect")),
                )
            )
            if answer is None:
                return Refused(words=describe_user_rejection(), stop=True)
            labels = [options[n].label for n in answer.chosen if n < len(options)]
            answers[item["question"]] = answer.words or ", ".join(labels)
        return Granted(input=arguments | {"answers": answers})

    # -- before a session

    async def line(self, prompt: str) -> str | None:
        """Ask for a line of text; return None if the user gives none."""
        own = Choice(label="Answer", asks_words=True)
        answer = await self.choose(Dialog(title=join_lines(prompt), choices=[own]))
        return None if answer is None else answer.words

    async def trust(self, folder: str, waiting: Sequence[str]) -> bool:
        """Ask whether the folder's own settings may start programs."""
        choices = [
            Choice(label="Yes, trust this folder", key="y"),
            Choice(label="No, continue without it", key="n"),
        ]
        listing = "\n".join(f"  {line}" for line in waiting)
        words = f"{TRUST_EXPLANATION}\n{listing}"
        title = f"Do you trust {join_lines(folder)}?"
        key, _ = await self._chosen(Dialog(title=title, choices=choices, text=words, at=1))
        return key == "y"

    async def sandbox(self) -> bool | None:
        """Ask in which permission modes commands run in a sandbox.

        Return True for every mode, False for none, and None for the default modes or without an
        answer.
        """
        choices = [
            Choice(label="Yes, in every permission mode", key="y"),
            Choice(label="Only in the auto and accept edits modes", key="a"),
            Choice(label="Never", key="n"),
        ]
        text = f"  {SANDBOX_EXPLANATION}"
        dialog = Dialog(title=SANDBOX_QUESTION, choices=choices, text=text, at=1)
        key, _ = await self._chosen(dialog)
        return {"y": True, "n": False}.get(key)

    async def server(self, name: str, reach: str) -> bool | None:
        """Ask whether to start an MCP server that the project defines.

        Return None if the user decides later.
        """
        choices = [
            Choice(label="Yes, start it", key="y"),
            Choice(label="No", key="n"),
            Choice(label="Ask me next time", key="l"),
        ]
        title = f"Start the MCP server “{join_lines(name)}” defined by this project?"
        target = reach.removeprefix("(").removesuffix(")")
        dialog = Dialog(title=title, choices=choices, text=f"  Command or URL: {target}", at=2)
        key, _ = await self._chosen(dialog)
        return {"y": True, "n": False}.get(key)


def make_title(call: Json) -> str:
    """Return the question that a permission prompt asks about a tool call."""
    name, arguments = str(call["name"]), call["input"]
    path = arguments.get("file_path") or arguments.get("notebook_path") or ""
    file_name = join_lines(str(path).rstrip("/").rpartition("/")[2])
    if name in ("Bash", "PowerShell"):
        return "Run this command?"
    if name == "Write" and file_name:
        return f"Write {file_name}?"
    if name in ("Edit", "MultiEdit", "NotebookEdit") and file_name:
        return f"Edit {file_name}?"
    return f"Allow {join_lines(name)}?"


def verdict_of(key: str, words: str) -> Verdict:
    """Return the verdict for an answer: approval, rejection with a reason, or plain rejection."""
    if key == "y":
        return Granted()
    if key == "w":
        return Refused(words=describe_user_rejection(words))
    return Refused(words=describe_user_rejection(), stop=True)


def lasting_answers(question: Question, rules: SessionRules) -> list[LastingAnswer]:
    """Return the answers on offer that would also apply to later calls."""
    is_trusted = rules.standing.is_trusted
    return list(
        list_lasting_answers(question.request, question.decision, rules.mode, is_trusted=is_trusted)
    )


def offer_answers(question: Question, rules: SessionRules) -> dict[str, LastingAnswer]:
    """Return the lasting answers, each under the key that selects it."""
    return {KEPT if o.is_kept else FOR_NOW: o for o in lasting_answers(question, rules)}


def take(update: Update, rules: SessionRules, *, is_kept: bool) -> str:
    """Apply a lasting answer; return a message if it cannot be saved or does not apply yet.

    The call itself is allowed in either case.
    """
    try:
        rules.update([update])
    except (SettingsError, OSError) as error:
        return describe_error(error)
    return NOT_YET if is_kept and not rules.standing.is_trusted else ""


def format_input(arguments: Json) -> str:
    """Format every field of a call's input in full, because the user approves all of it."""
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"    {name}: {line}" for line in text.split("\n")]
    return escape_controls("\n".join(lines))
