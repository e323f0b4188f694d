"""Asks the person for permission: what, why, and what the answers mean."""

from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.core.input import Outcome, Show, SlashCommand
from clew.core.json_object import Json
from clew.core.messages.text import rejected_by_user
from clew.fronts.line.telling import LineWriter
from clew.fronts.render.rows import visible
from clew.fronts.terminal.choosing import offered, take, whole
from clew.fronts.terminal.first_run import EXPLANATION, QUESTION
from clew.fronts.terminal.keyboard import LineKeyboard
from clew.permissions.in_session import SessionRules
from clew.session.session import Session

YES = ("y", "yes")
NO = ("", "n", "no")
SANDBOX_CHOICES = "  y = in every mode; n = never; Enter = in modes auto and acceptEdits: "
REASON = "  n = no; anything else = no, and this is why: "
PLAN_CHOICES = "  y = begin; n = stop here; anything else = go on planning, and this is why: "


class Questions:
    """`rules` are those of the session, from its start on."""

    def __init__(self, keyboard: LineKeyboard, telling: LineWriter) -> None:
        self._keyboard = keyboard
        self._telling = telling
        self.rules: SessionRules | None = None

    async def ask(self, question: Question) -> Verdict:
        """One call, one answer. No answer is a no that ends the turn."""
        self._telling.ring()
        match question.kind:
            case "choices":
                return await self._choices(question.block["input"])
            case "plan":
                return await self._plan(question.body)
            case "permission":
                return await self._permission(question)

    async def sandbox(self) -> bool | None:
        """Whether commands run in a sandbox: in every mode, in none; None: as it is by itself."""
        self._telling.line(f"? {QUESTION} {EXPLANATION}")
        answer = (await self._keyboard.line(SANDBOX_CHOICES) or "").strip().lower()
        return {"y": True, "yes": True, "n": False, "no": False}.get(answer)

    async def _choices(self, given: Json) -> Verdict:
        """Every question in turn; a number, several, or words of the person's own."""
        answers: dict[str, str] = {}
        for asked in given["questions"]:
            labels = [str(option["label"]) for option in asked["options"]]
            self._telling.line(f"? {visible(str(asked['question']))}")
            for number, option in enumerate(asked["options"], 1):
                told = f": {option['description']}" if option.get("description") else ""
                self._telling.line(visible(f"    {number} = {option['label']}{told}"))
            several = ", several with commas" if asked.get("multiSelect") else ""
            line = await self._keyboard.line(f"  a number{several}, or your own words: ")
            if line is None or not line.strip():
                return Refused(words=rejected_by_user(), stop=True)
            answers[asked["question"]] = chosen(
                line.strip(), labels, several=bool(asked.get("multiSelect"))
            )
        return Granted(input=given | {"answers": answers})

    async def _plan(self, plan: str) -> Verdict:
        self._telling.line("? The plan:")
        self._telling.line(visible(plan))
        answer = await self._keyboard.line(PLAN_CHOICES)
        if answer is None or answer.strip().lower() in NO:
            return Refused(words=rejected_by_user(), stop=True)
        if answer.strip().lower() in YES:
            return Granted()
        return Refused(words=rejected_by_user(f"keep planning: {answer.strip()}"))

    async def _permission(self, question: Question) -> Verdict:
        whose = f"agent “{visible(question.agent)}”: " if question.agent_id else ""
        self._telling.line(
            f"? {whose}{question.block['name']} wants to run, and asks: {question.why}"
        )
        self._telling.line(visible(whole(question.block["input"])))
        more = offered(question, self.rules)
        self._telling.line("  y = yes, this once")
        for letter, offer in more.items():
            self._telling.line(visible(f"  {letter} = yes, and {offer.words}"))
        answer = await self._keyboard.line(REASON)
        if answer is None:
            return Refused(words=rejected_by_user(), stop=True)
        words = answer.strip()
        if self.rules is not None and words.lower() in more:
            if trouble := take(more[words.lower()], self.rules):
                self._telling.line(f"! {trouble}")
            return Granted()
        if words.lower() in YES:
            return Granted()
        if words.lower() in NO:
            return Refused(words=rejected_by_user(), stop=True)
        return Refused(words=rejected_by_user(words))


def chosen(line: str, labels: list[str], *, several: bool) -> str:
    """The answers that numbers stand for; whatever is no number of an answer is an answer itself."""
    parts = [part.strip() for part in line.split(",")] if several else [line]
    if not all(part.isdecimal() and 1 <= int(part) <= len(labels) for part in parts):
        return line
    return ", ".join(labels[int(part) - 1] for part in parts)


# /see, where lines are printed and nothing is drawn: what was shown in part, whole.


def see(telling: LineWriter) -> SlashCommand[Session]:
    async def run(_: Session, number: str) -> Outcome:
        if not number.strip():
            return Show(text="\n".join(telling.folded) or "nothing was shown in part")
        lines = telling.whole(number.strip())
        if not lines:
            return Show(text=f"nothing was shown in part as no. {number.strip()}", is_error=True)
        return Show(text="\n".join(lines))

    return SlashCommand(
        name="see",
        description="show whole what was shown in part; without a number, list it",
        hint="[NUMBER]",
        run=run,
        is_interactive=True,
    )
