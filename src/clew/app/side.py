"""The model for small work: which one it is, and how it is asked."""

import time

from clew.app.service import Service
from clew.app.stamps import now
from clew.config.environment import Environment
from clew.engine.side_question import SMALL, SideQuestions
from clew.session.state import Session as Spending
from clew.transcript.record import Recorder

SMALL_MODEL = "haiku"


def side_questions(
    service: Service,
    environment: Environment,
    spending: Spending,
    recorder: Recorder,
) -> SideQuestions:
    small = environment.text("small_model") or SMALL_MODEL
    return SideQuestions(
        answer=service.answering,
        catalog=service.catalog,
        models={SMALL: small},
        session=spending,
        recorder=recorder,
        now=now,
        monotonic_s=time.monotonic,
    )
