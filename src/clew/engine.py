"""The parts of the engine that need no session: streams, requests and costs. Pure.

Nothing here reads a clock, a file or a network, and importing it does not load the agent. The names
are as stable as those of `clew`.
"""

from clew.core.catalog.added import with_models
from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.catalog.models import Model
from clew.core.ledger.ledger import Charge, Ledger, Spend, find_charges
from clew.core.ledger.spending import TokenCounts
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.for_api import Projected, for_api
from clew.core.normalize.repairs import Repair
from clew.core.normalize.target import Target
from clew.core.normalize.validate import validate_body
from clew.core.stream.answer_reader import AnswerReader
from clew.core.stream.events import (
    AnswerEvent,
    MessageFinished,
    MessageStarted,
    StreamFault,
    TextDelta,
    ToolUseReady,
    ToolUseUnusable,
)

__all__ = [
    "CATALOG",
    "AnswerEvent",
    "AnswerReader",
    "Charge",
    "Ledger",
    "MessageFinished",
    "MessageStarted",
    "Model",
    "ModelCatalog",
    "Projected",
    "Repair",
    "RequestViolation",
    "Spend",
    "StreamFault",
    "Target",
    "TextDelta",
    "TokenCounts",
    "ToolUseReady",
    "ToolUseUnusable",
    "find_charges",
    "for_api",
    "validate_body",
    "with_models",
]
