"""Media that a failed request names, so that later requests omit them."""

import pytest

from clew.agent.transitions import find_removable_media, make_failure_entry
from clew.providers.base import Failure


@pytest.mark.parametrize(
    ("status", "kinds"), [(400, ["image"]), (413, ["document", "image"]), (529, [])]
)
def test_a_rejected_request_names_the_media_to_omit(status: int, kinds: list[str]) -> None:
    failure = Failure(kind="status", status=status, message="Could not process image")
    blocks = [{"type": "image"}, {"type": "tool_result", "content": [{"type": "document"}]}]
    assert find_removable_media(failure, [{"content": blocks}]) == kinds
    assert find_removable_media(failure, [{"content": "x"}]) == []
    entry = make_failure_entry(failure, uuid="u", at="t", attempt=1, refused_media=kinds)
    assert entry.get("refusedMedia", []) == kinds
