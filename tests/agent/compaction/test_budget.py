"""How a context window is divided, and what follows from its fill level."""

import pytest

from clew.agent.compaction.budget import Room, at_of, choose_step, divide_window
from tests.requirements import requirement

SMALL = divide_window(24_000, output=4_000)


@requirement("R192")
def test_known_windows_are_filled_up_to_what_an_answer_and_an_error_need() -> None:
    assert divide_window(200_000, output=32_000).auto == 167_000
    assert divide_window(1_000_000, output=128_000).auto == 967_000


def test_every_part_of_every_window_has_room_in_it() -> None:
    for window in (1, 5_000, 32_000, 200_000, 1_000_000):
        for output in (None, 100, 8_000, 128_000):
            shared = divide_window(window, output=output)
            size = max(4_000, window)
            assert shared.auto is not None
            assert shared.warn is not None
            assert 0 < shared.warn < shared.auto < size
            told_again = shared.kept + shared.files + shared.quote + shared.summary
            assert told_again < shared.auto


def test_an_unknown_window_has_parts_and_no_limit() -> None:
    shared = divide_window(None)
    assert (shared.auto, shared.warn, shared.window) == (None, None, None)
    assert choose_step(10**9, shared, freeable=10**9, is_cold=True) == "nothing"


@pytest.mark.parametrize(
    ("at", "auto"), [(0.5, 100_000), (90_000, 90_000), (1, 180_000), (10**9, 180_000), (3, 20_000)]
)
def test_a_user_says_when(at: float, auto: int) -> None:
    assert divide_window(200_000, at=at).auto == auto


@pytest.mark.parametrize(
    ("setting", "at"),
    [
        (0.8, 0.8),
        (120_000, 120_000.0),
        ({"claude-haiku*": 0.5, "*": 0.9}, 0.9),
        ({"claude-opus*": 0.5}, 0.5),
        ({"gpt*": 0.5}, None),
        (True, None),
        (0, None),
        (-3, None),
        (float("nan"), None),
        ("most", None),
        (None, None),
    ],
)
def test_settings_are_a_number_or_one_for_each_model(setting: object, at: float | None) -> None:
    assert at_of(setting, "claude-opus-5-5") == at


@pytest.mark.parametrize(
    ("size", "freeable", "is_cold", "step"),
    [
        (1_000, 0, False, "nothing"),
        (17_000, 9_000, False, "warn"),
        (17_000, 9_000, True, "free"),
        (5_000, 4_000, True, "nothing"),
        (19_000, 9_000, False, "free"),
        (19_000, 1_000, False, "shorten"),
        (25_000, 8_000, False, "shorten"),
    ],
)
def test_each_size_has_its_step(size: int, freeable: int, is_cold: bool, step: str) -> None:
    assert choose_step(size, SMALL, freeable=freeable, is_cold=is_cold) == step


def test_a_room_is_a_value() -> None:
    assert isinstance(SMALL, Room)
    assert divide_window(24_000, output=4_000) == SMALL
