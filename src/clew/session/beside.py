"""The state and the ledger of a session as a conversation beside it changes them. Pure.

What it costs is the session's, told apart by who spent it; what it wants to do itself is its own.
"""

from msgspec.structs import replace

from clew.session.ledger import Charge, Spend, Sums
from clew.session.state import Change, Listener, Session, State, TodosSet


class Beside(Session):
    """`spent` is what this conversation alone came to."""

    def __init__(self, session: Session, agent_id: str) -> None:
        self._session = session
        self._agent_id = agent_id
        self.spent = Spend()

    @property
    def state(self) -> State:
        return self._session.state

    @property
    def ledger(self) -> Sums:
        return self._session.ledger

    def listen(self, listener: Listener) -> None:
        self._session.listen(listener)

    def change(self, change: Change) -> None:
        if not isinstance(change, TodosSet):
            self._session.change(change)

    def charge(self, charge: Charge) -> None:
        before = self.ledger.total
        purpose = "subagent" if charge.purpose == "turn" else charge.purpose
        self._session.charge(replace(charge, purpose=purpose, agent=self._agent_id))
        self.spent += self.ledger.total - before
