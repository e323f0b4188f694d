"""The key actions on the prompt: sending, history, completion, pasting and the editor.

This module keeps the stashed prompt. A submitted prompt is passed to the callback `sent`.
"""

from __future__ import annotations

import os
import time

from clew.fronts.dialog import Choice
from clew.fronts.render.rows import join_lines
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.completion import MOST
from clew.fronts.terminal.prompt import PROMPT_INDENT, SubmittedText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, Protocol

    from clew.agent.tools.file_names import FileNames
    from clew.fronts.terminal.completion import CompletionWord
    from clew.fronts.terminal.history import PromptHistory
    from clew.fronts.terminal.screen import Screen
    from clew.fronts.terminal.stage import Stage

    class Sent(Protocol):
        def __call__(self, entry: SubmittedText, *, later: bool) -> object: ...


# Continues a line in terminals that cannot tell Shift-Enter from Enter.
CONTINUES = "\\"


class PromptController:
    """Performs the key actions on the prompt.

    `begin` starts a background task. `sent` handles a submitted prompt. `take_back` returns a
    queued message for editing.
    """

    def __init__(
        self,
        stage: Stage,
        screen: Screen,
        history: PromptHistory,
        begin: Callable[[Coroutine[Any, Any, None]], object],
        *,
        sent: Sent,
        take_back: Callable[[], SubmittedText | None],
    ) -> None:
        self._stage = stage
        self._screen = screen
        self._history = history
        # Finds files once a session is open.
        self.files: FileNames | None = None
        self._begin = begin
        self._sent = sent
        self._take_back = take_back
        self._stashed: SubmittedText | None = None
        # The word that servers are still to be asked about, and the results of servers and files.
        self._wanted: CompletionWord | None = None
        self._is_seeking = False
        self._offered: tuple[CompletionWord | None, Sequence[str], Sequence[str]] = (None, (), ())
        stage.prompt.buffer.on_text_changed += lambda _: self._changed()
        stage.prompt.buffer.on_cursor_position_changed += lambda _: self._look()

    def _changed(self) -> None:
        self._stage.touched()
        self._look()

    def _look(self) -> None:
        prompt = self._stage.prompt
        if self._history.is_recalling:
            if prompt.text == self._history.recalled:
                self._stage.completion.forget()
                return
            self._history.rest()
        query = self._stage.completion.update(prompt.buffer.document.text_before_cursor)
        if query is None or self.files is None:
            return
        self._offered = (query, (), ())
        if query.kind == "file":
            self._begin(self._look_for(query, self.files))
        self._wanted = query
        if not self._is_seeking:
            self._is_seeking = True
            self._begin(self._seek())

    async def _look_for(self, query: CompletionWord, files: FileNames) -> None:
        # One more than is shown, to know whether there are more.
        self._offer(query, files=await files.find(query.word, MOST + 1))

    async def _seek(self) -> None:
        """Ask MCP servers for completions, one query at a time.

        Of the words that the user types while a query runs, only the last one is looked up.
        """
        try:
            while (query := self._wanted) is not None:
                self._wanted = None
                extra = await self._stage.completion.known.seek(query)
                if extra:
                    self._offer(query, extra=extra)
        finally:
            self._is_seeking = False

    def _offer(
        self,
        query: CompletionWord,
        *,
        files: Sequence[str] | None = None,
        extra: Sequence[str] | None = None,
    ) -> None:
        """Add the results from one source, files or servers, to the suggestions for a word.

        Results for an earlier word are dropped.
        """
        last, before, listed = self._offered
        if query != last:
            return
        now = (before if extra is None else extra, listed if files is None else files)
        self._offered = (query, *now)
        self._stage.completion.found(query, [*now[0], *now[1]])
        self._screen.changed()

    # -- sending

    def submit(self) -> None:
        """Handle Enter: accept a suggestion, add a line after a backslash, or send the prompt."""
        prompt, completion = self._stage.prompt, self._stage.completion
        if completion.is_open and self._takes_offer():
            return
        if prompt.buffer.document.text_before_cursor.endswith(CONTINUES):
            prompt.buffer.delete_before_cursor()
            prompt.buffer.insert_text("\n")
            return
        self.send(later=False)

    def _takes_offer(self) -> bool:
        """Accept the current suggestion on Enter. Return True if the line must not be sent yet.

        A suggestion is ignored if it is already in the prompt, or if the user did not select it.
        But a command is accepted without being selected if its name starts with the typed word. An
        unknown command is never replaced by another one.
        """
        choice = self._stage.completion.chosen()
        if choice is None or self._stage.completion.guessed:
            return False
        begin, offer = choice
        is_written = self._stage.prompt.text[begin:].strip() == offer.text.strip()
        if is_written or not (self._stage.completion.is_chosen or offer.text.startswith("/")):
            self._stage.completion.forget()
            return False
        self.accept()
        return not (offer.is_whole and offer.text.startswith("/"))

    def queue(self) -> None:
        """Queue the prompt until the turn ends.

        While suggestions are being looked up, do nothing, because the same key accepts them.
        """
        if not (self._is_seeking and self._stage.completion.is_asked):
            self.send(later=True)

    def send(self, *, later: bool) -> None:
        if not self._stage.prompt.text.strip():
            return
        entry = self._stage.prompt.take()
        self._stage.completion.forget()
        self._history.add(entry, round(time.time() * 1000))
        self._sent(entry, later=later)

    def line(self, text: str) -> None:
        """Send a line that is bound to a key, as if the user had typed it."""
        self._sent(SubmittedText(text=text), later=False)

    def newline(self) -> None:
        self._stage.prompt.buffer.insert_text("\n")

    # -- completion

    def accept(self) -> None:
        choice = self._stage.completion.chosen()
        if choice is None:
            return
        begin, offer = choice
        buffer = self._stage.prompt.buffer
        space = " " if offer.is_whole and not offer.text.startswith("/") else ""
        buffer.delete_before_cursor(buffer.cursor_position - begin)
        buffer.insert_text(offer.text + space)

    def dismiss(self) -> None:
        self._stage.completion.close(self._stage.prompt.buffer.document.text_before_cursor)

    # -- history

    def older(self) -> None:
        """Handle Up: edit a queued message, move up a row, or recall an earlier prompt."""
        prompt = self._stage.prompt
        if prompt.is_empty and (waiting := self._take_back()) is not None:
            prompt.put(waiting)
        elif (self._walks_history() or not prompt.move_row(-1, self._width)) and (
            entry := self._history.older(prompt.look())
        ) is not None:
            prompt.put(entry)

    def newer(self) -> None:
        """Handle Down: move down a row, or return to a later prompt."""
        prompt = self._stage.prompt
        if (self._walks_history() or not prompt.move_row(1, self._width)) and (
            entry := self._history.newer()
        ) is not None:
            prompt.put(entry)

    def _walks_history(self) -> bool:
        """Return whether the prompt is one that was just recalled.

        Its rows are then skipped, so that a long prompt does not block the way to the others.
        """
        buffer = self._stage.prompt.buffer
        return self._history.is_recalling and buffer.cursor_position == len(buffer.text)

    @property
    def _width(self) -> int:
        return self._screen.terminal.size[0] - PROMPT_INDENT

    def search(self) -> None:
        choices = [Choice(label=join_lines(entry.text)[:500]) for entry in self._history.entries]
        if choices:
            chooser = Chooser("Prompt history", choices, searches=True)
            self._begin(self._found(self._stage.show(chooser)))
        else:
            self._stage.hint("No prompt history in this project")

    async def _found(self, chooser: Chooser) -> None:
        answer = await self._stage.answered(chooser)
        if answer is not None:
            self._stage.prompt.put(self._history.entries[answer.chosen[0]])

    # -- pasting and other programs

    def paste(self, text: str) -> None:
        from clew.fronts.terminal.prompt import read_picture

        image = read_picture(text, os.curdir)
        if image is None:
            self._stage.prompt.paste(text)
        else:
            self._stage.prompt.attach(image)

    def paste_picture(self) -> None:
        self._begin(self._paste_picture())

    async def _paste_picture(self) -> None:
        from clew.fronts.terminal.prompt import from_clipboard

        image = await from_clipboard(os.environ)
        if isinstance(image, str):
            self._stage.hint(image)
        else:
            self._stage.prompt.attach(image)
            self._screen.changed()

    def stash(self) -> None:
        """Stash the prompt; if it is empty, restore the stashed one."""
        prompt = self._stage.prompt
        if not prompt.is_empty:
            self._stashed = prompt.take()
            self._stage.hint("Prompt stashed; press the same key to restore it")
        elif self._stashed is not None:
            prompt.put(self._stashed)
            self._stashed = None

    def clear(self) -> None:
        """Clear the prompt. The user can restore the text with undo or from the history."""
        self._history.add(self._stage.prompt.look(), round(time.time() * 1000))
        self._stage.prompt.clear()
        self._stage.hint("Prompt cleared; ↑ or ctrl+_ restores it")

    def discard(self) -> None:
        """Clear the prompt for Ctrl-C. Undo restores the text, which no file keeps."""
        self._history.rest()
        self._stage.prompt.clear()
        self._stage.hint("Prompt cleared; ctrl+_ restores it")

    def edit(self) -> None:
        self._begin(self._edit())

    async def _edit(self) -> None:
        from clew.fronts.terminal.other_programs import edit_text

        prompt = self._stage.prompt
        come_back = await edit_text(self._screen, prompt.text, os.environ)
        if come_back.trouble:
            self._stage.hint(come_back.trouble)
        else:
            prompt.put(SubmittedText(text=come_back.text, pasted=prompt.look().pasted))
            self._screen.changed()
