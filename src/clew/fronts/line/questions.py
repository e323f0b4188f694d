"""Questions in line mode, answered by letter, number or free text."""

from clew.core.input import Outcome, Show, SlashCommand
from clew.fronts.dialog import Dialog, DialogAnswer
from clew.fronts.line.keyboard import LineKeyboard
from clew.fronts.line.telling import LineWriter
from clew.fronts.questions import Questions
from clew.fronts.render.rows import escape_controls
from clew.session.session import Session

SAME = {"yes": "y", "no": "n"}


class LineQuestions(Questions):
    def __init__(self, keyboard: LineKeyboard, telling: LineWriter) -> None:
        super().__init__(lambda words: telling.line(f"! {words}"))
        self._keyboard = keyboard
        self._telling = telling

    async def choose(self, dialog: Dialog) -> DialogAnswer | None:
        """Ask a question and return the answer, or None.

        Enter selects the preselected choice. If that is the first choice, Enter gives no answer.
        """
        own = next((n for n, choice in enumerate(dialog.choices) if choice.asks_words), None)
        keys = {c.key or str(n): n - 1 for n, c in enumerate(dialog.choices, 1) if n - 1 != own}
        self._telling.ring()
        self._telling.line(f"? {escape_controls(dialog.title)}")
        if dialog.text:
            self._telling.line(escape_controls(dialog.text))
        answer = (await self._keyboard.line(self._list(dialog, keys, own)) or "").strip()
        parts = answer.lower().split(",") if dialog.several else [answer.lower()]
        parts = [SAME.get(part.strip(), part.strip()) for part in parts]
        if all(part in keys for part in parts):
            return DialogAnswer(chosen=tuple(keys[part] for part in parts))
        if answer and own is not None:
            return DialogAnswer(chosen=(own,), words=answer)
        return DialogAnswer(chosen=(dialog.at,)) if dialog.at else None

    def _list(self, dialog: Dialog, keys: dict[str, int], own: int | None) -> str:
        """Print the choices, and return the prompt, which may include the last choice."""
        rows = [f"  {key} = {dialog.choices[n].label}" for key, n in keys.items()]
        if not dialog.choices[0].key:
            for row, n in zip(rows, keys.values(), strict=True):
                hint = dialog.choices[n].hint
                self._telling.line(escape_controls(f"  {row}: {hint}" if hint else f"  {row}"))
            return f"  Number{' (several with commas)' if dialog.several else ''}, or your own answer: "
        if own is not None:
            *above, last = rows
            prompt = f"{last}; anything else = {dialog.choices[own].label}: "
        else:
            above = [row for row, n in zip(rows, keys.values(), strict=True) if n != dialog.at]
            prompt = f"  Enter = {dialog.choices[dialog.at].label}: "
        for row in above:
            self._telling.line(escape_controls(row))
        return prompt


# The /see command: prints collapsed output in full in line mode.


def see(telling: LineWriter) -> SlashCommand[Session]:
    async def run(_: Session, number: str) -> Outcome:
        if not number.strip():
            return Show(text="\n".join(telling.folded) or "No collapsed output")
        lines = telling.whole(number.strip())
        if not lines:
            return Show(text=f"No collapsed output number {number.strip()}", is_error=True)
        return Show(text="\n".join(lines))

    return SlashCommand(
        name="see",
        description="Expand collapsed output; without a number, list it",
        hint="[NUMBER]",
        run=run,
        is_interactive=True,
    )
