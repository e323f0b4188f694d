"""What viewers of a session, and its remote tasks, need of the terminal that runs it."""

from typing import Protocol

from clew.fronts.drive import Line


class SessionDesk(Protocol):
    """The terminal of a session, as viewers use it."""

    @property
    def is_over(self) -> bool:
        """Whether the session is to end, which closes its questions."""
        ...

    def receive(self, line: Line) -> None:
        """Handle a viewer's prompt."""
        ...

    def stop(self) -> bool:
        """Interrupt the running turn; return whether there was one."""
        ...

    def tell(self, words: str) -> None:
        """Show a notice to the user."""
        ...

    def changed(self) -> None:
        """Redraw what may have changed, such as the mode and the model."""
        return
