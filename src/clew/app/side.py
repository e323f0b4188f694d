"""The model for small work: which one it is, and how it is asked."""

import time

from clew.app.service import Service
from clew.app.stamps import now
from clew.config.environment import Environment
from clew.engine.side_question import SMALL, SideQuestions
from clew.session.state import Session as Spending
from clew.transcript.record import Recorder

SMALL_MODEL = "haiku"


def small_model(environment: Environment, service: Service, main: str) -> str:
    """The model for small work; of services that speak chat nobody knows one but the main model."""
    known = main if service.provider.endpoint.speaks_chat else SMALL_MODEL
    return environment.text("small_model") or known


def side_questions(
    service: Service,
    environment: Environment,
    spending: Spending,
    recorder: Recorder,
    *,
    main: str,
) -> SideQuestions:
    return SideQuestions(
        answer=service.answering,
        catalog=service.catalog,
        models={SMALL: small_model(environment, service, main)},
        session=spending,
        recorder=recorder,
        now=now,
        monotonic_s=time.monotonic,
    )
