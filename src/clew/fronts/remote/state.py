"""The report that a worker sends apart from frames: mode, model, cost and context size."""

from clew.core.json_object import Json, object_of
from clew.session.session import Session
from clew.system.config.settings import read_text

COUNTED = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
# Frames that can change the report.
CHANGING = frozenset({"assistant", "result", "control_response"})
TITLE_CHARACTERS = 200


class SessionReport:
    """Makes the reports. Tracks the cost and the context size, which only frames contain."""

    def __init__(self) -> None:
        self._told: Json = {}
        self._cost_usd: float | None = None
        self._context_used = 0

    def note(self, frame: Json) -> None:
        """Read the cost and the context size from one of the session's frames."""
        usage = object_of(object_of(frame.get("message")).get("usage"))
        if frame.get("type") == "assistant" and usage and not frame.get("parent_tool_use_id"):
            self._context_used = sum(int(usage.get(name) or 0) for name in COUNTED)
        cost = frame.get("total_cost_usd")
        if isinstance(cost, int | float):
            self._cost_usd = float(cost)

    def changes(self, session: Session) -> Json:
        """Return the current report, or an empty object if it is the same as the last one."""
        settings = session.rules.standing.settings
        report: Json = {
            "cwd": session.workspace.cwd,
            "title": " ".join(session.parts.title.text.split())[:TITLE_CHARACTERS],
            "permission_mode": session.mode,
            "model": session.model.id,
            "context_max": session.model.context_window,
            "context_used": self._context_used,
            "cost_usd": self._cost_usd,
            # The longest duration of a viewer's approval.
            "answers": read_text(settings, "remoteAnswers"),
        }
        if report == self._told:
            return {}
        self._told = report
        return report
