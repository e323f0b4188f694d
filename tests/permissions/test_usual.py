"""The strict grammar costs users little: what agents usually read still runs without asking."""

from tests.permissions.usual import asked, read_lines, share
from tests.permissions.world import World


def test_the_usual_looks_are_as_many_as_promised() -> None:
    held = read_lines("usual.txt")
    assert len(set(held)) == len(held) >= 600
    assert set(read_lines("usual_asked.txt")) < set(held)


def test_of_the_usual_looks_allowed_before_the_strict_reading_19_of_20_are_allowed(
    world: World,
) -> None:
    allowed, lost = share(world)
    assert allowed >= 0.95, lost


def test_most_of_all_usual_looks_run_unasked(world: World) -> None:
    held = read_lines("usual.txt")
    assert len(asked(world, held)) / len(held) < 0.15
