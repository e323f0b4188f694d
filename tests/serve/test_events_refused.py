"""Frames that viewers may not send."""

import pytest

from clew.serve.frames import scope_of
from clew.serve.log import RefusedError


def test_a_viewer_cannot_withdraw_the_question_of_a_worker() -> None:
    assert scope_of({"type": "control_response"}) == "answer"
    with pytest.raises(RefusedError):
        scope_of({"type": "control_cancel_request", "request_id": "1"})
