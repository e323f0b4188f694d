"""What a response cost, into the ledger at once and as a line beside the conversation.

The line says what no entry of the chain does: how long the request took, by a clock that only goes
forward, what it was for, and what an answer cost that was withdrawn and stands nowhere else.
"""

from clew.core.catalog.lookup import ModelCatalog
from clew.core.json_object import Json
from clew.core.ledger.ledger import Purpose, find_charges
from clew.core.ledger.spending import compute_usd
from clew.core.ledger.state import SessionTracker
from clew.record.transcript.record import Recorder


def charge(
    session: SessionTracker,
    recorder: Recorder,
    message: Json,
    *,
    request_id: str | None,
    purpose: Purpose,
    duration_ms: float,
    at: str,
    catalog: ModelCatalog,
    warming_id: str = "",
) -> None:
    """Takes in one response; nothing where the service did not say what it counted."""
    usage, model = message.get("usage"), message.get("model")
    if not isinstance(usage, dict) or not any(usage.values()):
        return
    message_id = str(message.get("id") or "")
    cost: Json = {
        "messageId": message_id,
        "requestId": request_id or message_id,
        "model": model,
        "usage": usage,
        "purpose": purpose,
        "durationMs": round(duration_ms),
    }
    amount = compute_usd(usage, str(model), at, catalog)
    if amount is not None:
        cost["costUSD"] = float(amount)
    fields = {"warmingId": warming_id} if warming_id else {}
    recorder.request_cost(**cost, **fields)
    for charge in find_charges([{"type": "request-cost", "timestamp": at, **cost}], catalog):
        session.charge(charge)
