"""Charge a response to the ledger and record its cost as a transcript line.

The line contains data that the conversation's entries lack: the duration measured with a monotonic
clock, the purpose of the request, and the cost of a withdrawn response.
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
    """Charge one response; do nothing if the service reported no usage."""
    usage, model = message.get("usage"), message.get("model")
    if not isinstance(usage, dict) or not any(usage.values()):
        return
    message_id = str(message.get("id") or "")
    cost: Json = {
        "message_id": message_id,
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
