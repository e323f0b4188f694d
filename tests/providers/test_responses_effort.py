"""The effort that a model of the responses API does not know is lowered."""

import pytest

from clew.core.catalog.models import EffortLevel
from clew.providers.base import Effort
from clew.providers.responses import lower_effort


@pytest.mark.parametrize(
    ("wanted", "known", "sent"),
    [
        ("max", None, "max"),
        ("max", ("low", "medium", "high"), "high"),
        ("xhigh", ("low", "max"), "low"),
        ("high", ("low", "high"), "high"),
        ("low", ("medium",), "medium"),
    ],
)
def test_an_effort_is_lowered_to_what_the_model_knows(
    wanted: Effort, known: tuple[EffortLevel, ...] | None, sent: Effort
) -> None:
    assert lower_effort(wanted, known) == sent
