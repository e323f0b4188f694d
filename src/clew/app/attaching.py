"""Facts, as entries of a conversation."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from clew.app.stamps import new_id, now
from clew.context.facts import Fact
from clew.messages import factories

Json: TypeAlias = dict[str, Any]


def attachments(facts: Iterable[Fact]) -> list[Json]:
    """Facts as the entries that will say so from now on."""
    return [
        factories.attachment(
            fact.payload, uuid=new_id(), at=now(), rendered=fact.rendered, role=fact.role
        )
        for fact in facts
    ]
