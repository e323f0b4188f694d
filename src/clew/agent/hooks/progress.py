"""What is told while hooks run, for whoever shows or frames it."""

from msgspec import Struct

from clew.agent.hooks.output import Ran


class HookStarted(Struct, frozen=True, kw_only=True):
    """A hook runs now; `status` is what its settings would have people read meanwhile."""

    hook_id: str
    name: str
    event: str
    status: str = ""
    # The call that it is about, where it is about one.
    tool_use_id: str = ""


class HookFinished(Struct, frozen=True, kw_only=True):
    """A hook has ended, however."""

    hook_id: str
    name: str
    event: str
    ran: Ran
    # The handler in a line: its command, its address.
    title: str
    tool_use_id: str = ""

    @property
    def outcome(self) -> str:
        """In the word that programs read."""
        if self.ran.is_timeout:
            return "cancelled"
        return "error" if self.ran.trouble or self.ran.exit_code else "success"
