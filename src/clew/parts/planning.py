"""The session's own state that tools may change: mode, plan, task list and settings."""

from pathlib import Path

from clew.core.messages.errors import SettingsError
from clew.parts.part import Part
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Mode
from clew.record.transcript.paths import get_task_list_dir
from clew.record.transcript.record import Recorder
from clew.system.config.paths import Places

PLAN: Mode = "plan"
BYPASS: Mode = "bypassPermissions"


class OwnSession(Part):
    """The session part for the permission mode, which restores the previous mode after planning."""

    name = "planning"

    def __init__(self, rules: SessionRules, recorder: Recorder, *, may_bypass: bool) -> None:
        self._rules = rules
        # A session that started in this mode may return to it.
        self._may_bypass = may_bypass or rules.mode == BYPASS
        self._recorder = recorder
        self._before: Mode = "default"
        paths = recorder.paths
        self.task_folder: Path = (
            get_task_list_dir(self.places.config_home, paths.place.session_id)
            if paths.aside is None
            else paths.aside / "tasks"
        )

    @property
    def mode(self) -> Mode:
        return self._rules.mode

    @property
    def mode_before(self) -> Mode:
        """The mode to return to after planning, unless the user chooses another one."""
        return self._before

    @property
    def plan_file(self) -> Path:
        return Path(self._rules.plan_file)

    @property
    def places(self) -> Places:
        return self._rules.standing.places

    def change_mode(self, word: str) -> Mode:
        """Switch to a mode at the request of the user or the host.

        Raise `SettingsError` if the session may not use it.
        """
        if word == BYPASS and not self._may_bypass:
            raise SettingsError(
                "bypassPermissions: start clew with --dangerously-skip-permissions or "
                "--allow-dangerously-skip-permissions to enter this mode"
            )
        if word == PLAN:
            self.enter_plan()
            return self.mode
        return self._change(word)

    def enter_plan(self) -> None:
        if self.mode != PLAN:
            self._before = self.mode
            self._change(PLAN)

    def leave_plan(self) -> Mode:
        """Leave plan mode for the previous mode, unless the user already chose another one."""
        return self._change(self._before if self.mode == PLAN else self.mode)

    def _change(self, mode: str) -> Mode:
        entered = self._rules.set_mode(mode)
        self._recorder.permission_mode(entered)
        return entered
