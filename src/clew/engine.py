"""The parts of the engine that need no session: streams, requests, transcripts, permissions, costs.

None of them uses a clock, a file or a network, and importing this module does not load the agent.
The names are as stable as those of `clew`.
"""

from clew.core.catalog.added import with_models
from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.catalog.models import Model, Price, Rates
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
    BlockDropped,
    BlockFinished,
    BlockStarted,
    CitationAdded,
    Ignored,
    InputDelta,
    MessageFinished,
    MessageStarted,
    StreamFault,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
    UsageChanged,
)
from clew.permissions.judgment import Judgment, judge_call
from clew.record.transcript.reading import read_transcript

__all__ = [
    "CATALOG",
    "AnswerEvent",
    "AnswerReader",
    "BlockDropped",
    "BlockFinished",
    "BlockStarted",
    "Charge",
    "CitationAdded",
    "Ignored",
    "InputDelta",
    "Judgment",
    "Ledger",
    "MessageFinished",
    "MessageStarted",
    "Model",
    "ModelCatalog",
    "Price",
    "Projected",
    "Rates",
    "Repair",
    "RequestViolation",
    "Spend",
    "StreamFault",
    "Target",
    "TextDelta",
    "ThinkingDelta",
    "TokenCounts",
    "ToolUseReady",
    "ToolUseUnusable",
    "UsageChanged",
    "find_charges",
    "for_api",
    "judge_call",
    "read_transcript",
    "validate_body",
    "with_models",
]
