"""Questions in line mode, answered by letter, number or free text."""

import asyncio
from collections.abc import Sequence

from clew.core.catalog.services import ServiceRow
from clew.core.input import Outcome, Show, SlashCommand
from clew.fronts.dialog import Dialog, DialogAnswer
from clew.fronts.line.keyboard import LineKeyboard
from clew.fronts.line.telling import LineWriter
from clew.fronts.questions import Questions, describe_answer
from clew.fronts.render.rows import escape_controls
from clew.session.session import Session

SAME = {"yes": "y", "no": "n"}


class LineQuestions(Questions):
    def __init__(self, keyboard: LineKeyboard, telling: LineWriter) -> None:
        super().__init__(lambda words: telling.line(f"! {words}"))
        self._keyboard = keyboard
        self._telling = telling

    async def choose(self, dialog: Dialog) -> DialogAnswer | None:
        """Ask a question and return the answer, or None if the user gives none.

        Enter selects the preselected choice. If that is the first choice, Enter gives no answer.
        """
        choices = dialog.choices
        own = next((n for n, c in enumerate(choices) if c.asks_words or c.words_key), None)
        keys = {
            key: n
            for n, choice in enumerate(choices)
            for key in (str(n + 1), choice.key)
            if key and not choice.asks_words
        }
        self._telling.ring()
        self._telling.line(f"? {escape_controls(dialog.title)}")
        if dialog.text:
            self._telling.line(escape_controls(dialog.text))
        try:
            answer = (await self._keyboard.line(self._list(dialog, own)) or "").strip()
        except asyncio.CancelledError:
            # The question was withdrawn, so the prompt's line is still open.
            self._telling.line("")
            raise
        parts = answer.lower().split(",") if dialog.several else [answer.lower()]
        parts = [SAME.get(part.strip(), part.strip()) for part in parts]
        if all(part in keys for part in parts):
            return DialogAnswer(chosen=tuple(keys[part] for part in parts))
        if answer and own is not None:
            if answer.lower() == choices[own].words_key:
                prompt = f"  {escape_controls(choices[own].words_label)}: "
                answer = (await self._keyboard.line(prompt) or "").strip()
            return DialogAnswer(chosen=(own,), words=answer)
        return DialogAnswer(chosen=(dialog.at,)) if dialog.at else None

    async def choose_all(self, dialogs: Sequence[Dialog]) -> list[DialogAnswer] | None:
        """Ask all questions, then let the user review the answers and change them.

        Return the answers, or None if the user cancels.
        """
        answers = await super().choose_all(dialogs)
        if answers is None or len(dialogs) == 1:
            return answers
        while True:
            for number, (dialog, answer) in enumerate(zip(dialogs, answers, strict=True), 1):
                text = f"  {number}. {dialog.title} {describe_answer(dialog, answer)}"
                self._telling.line(escape_controls(text))
            reply = await self._keyboard.line("  Enter = Send these answers; number = Change one: ")
            if reply is None:
                return None
            if not reply.strip():
                return answers
            at = int(reply) - 1 if reply.strip().isdecimal() else -1
            if 0 <= at < len(dialogs) and (changed := await self.choose(dialogs[at])) is not None:
                answers[at] = changed

    def _list(self, dialog: Dialog, own: int | None) -> str:
        """Print the choices that the prompt does not name, and return the prompt."""
        if not dialog.choices[0].key:
            for number, choice in enumerate(dialog.choices, 1):
                if not choice.asks_words:
                    hint = f": {choice.hint}" if choice.hint else ""
                    self._telling.line(escape_controls(f"    {number} = {choice.label}{hint}"))
            several = " (several separated by commas)" if dialog.several else ""
            return f"  Number{several}, or your own answer: "
        rows = [
            f"  {n}, {choice.key} = {choice.label}" for n, choice in enumerate(dialog.choices, 1)
        ]
        if own is not None:
            *above, last = rows
            prompt = f"{last}; anything else = {dialog.choices[own].words_label}: "
        else:
            above = [row for n, row in enumerate(rows) if n != dialog.at]
            prompt = f"  Enter = {dialog.choices[dialog.at].label}: "
        for row in above:
            self._telling.line(escape_controls(row))
        return prompt


# Commands of line mode: /login, and /see, which prints collapsed output in full.


def login(keyboard: LineKeyboard, telling: LineWriter) -> SlashCommand[Session]:
    async def run(session: Session, service: str) -> Outcome:
        from clew.commands.login import describe_source
        from clew.fronts.login import log_in

        if session.conversation.is_running:
            return Show(text="/login: wait for the turn to end, or interrupt it", is_error=True)

        async def ask(row: ServiceRow) -> str | None:
            telling.line(describe_source(row))
            secret = await keyboard.secret("API key (hidden; Enter to cancel): ")
            return (secret or "").strip() or None

        return await log_in(session, service, ask, telling.line)

    return SlashCommand(
        name="login",
        description="Check an API key and save it",
        run=run,
        hint="[SERVICE]",
        is_interactive=True,
    )


def see(telling: LineWriter) -> SlashCommand[Session]:
    async def run(_: Session, number: str) -> Outcome:
        if not number.strip():
            return Show(text="\n".join(telling.folded) or "No collapsed output")
        lines = telling.whole(number.strip())
        if not lines:
            return Show(
                text=f"Collapsed output {number.strip()} not found; /see lists the numbers",
                is_error=True,
            )
        return Show(text="\n".join(lines))

    return SlashCommand(
        name="see",
        description="Expand collapsed output; without a number, list it",
        hint="[NUMBER]",
        run=run,
        is_interactive=True,
    )
