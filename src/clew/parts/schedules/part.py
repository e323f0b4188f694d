"""The schedules part of a session; its code is loaded only when schedules can be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from clew.agent.tasks.registry import Tasks
from clew.agent.tools.base import Tool
from clew.parts.part import Part
from clew.system.clock import local_time

if TYPE_CHECKING:
    from clew.parts.schedules.board import Board


class Schedules(Part):
    """The schedules part; `is_offered` means that the model may create schedules."""

    name = "schedules"

    def __init__(
        self,
        tasks: Tasks,
        *,
        spent: Callable[[], float],
        prepared: Callable[[str], Awaitable[str]],
        is_offered: bool,
    ) -> None:
        self._tasks = tasks
        self._spent = spent
        self._prepared = prepared
        self._is_offered = is_offered
        self._board: Board | None = None

    @property
    def board(self) -> Board:
        if self._board is None:
            from clew.parts.schedules.board import Board

            self._board = Board(
                self._tasks, now=local_time, spent=self._spent, prepared=self._prepared
            )
        return self._board

    def tools(self) -> Sequence[Tool[Any]]:
        if not self._is_offered:
            return ()
        from clew.parts.schedules.board import ScheduleCron, ScheduleDelete, ScheduleList

        board = self.board
        return ScheduleCron(board, local_time), ScheduleList(board), ScheduleDelete(board)

    def rows(self) -> list[dict[str, Any]]:
        """Return the schedules in the form that hooks receive."""
        return [] if self._board is None else self._board.rows()
