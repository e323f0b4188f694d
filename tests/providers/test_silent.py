"""A prompt that a server truncated without saying so."""

import pytest

from clew.providers.silent import describe_cut


@pytest.mark.parametrize(
    ("counted", "estimated", "is_cut"),
    [(2_051, 15_750, True), (4_096, 16_000, True), (9_600, 16_000, False), (0, 16_000, False),
     (100, 1_999, False)],
)  # fmt: skip
def test_a_count_far_below_the_estimate_is_a_cut(
    counted: int, estimated: int, is_cut: bool
) -> None:
    told = describe_cut(counted, estimated, "Ollama", "ollama")
    assert bool(told) is is_cut
    assert not told or "OLLAMA_CONTEXT_LENGTH" in told
    assert "context window" in describe_cut(1, 9_000, "Mine", "mine")
