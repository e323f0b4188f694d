"""Each table of commands has a function for every name in it, and no function without a name."""

from clew.commands.sessions.commands import WORDS
from clew.commands.slash import table
from clew.fronts.headless.controls import ELSEWHERE, HANDLERS


def test_every_slash_command_is_found_in_its_module() -> None:
    loads = [getattr(table, name) for name in dir(table) if name.startswith("load_")]
    found = [name for load in loads for name in load()]
    later = {one.name for one in table.BUILTIN if one.run.__qualname__.startswith("later.")}
    assert sorted(found) == sorted(later)
    assert len(later) > 20


def test_help_lists_every_command_of_clew_under_a_subject() -> None:
    listed = {name for names in table.SUBJECTS.values() for name in names}
    assert {one.name for one in table.BUILTIN} <= listed


def test_every_word_of_sessions_is_found_in_its_module() -> None:
    assert all(word in load() for word, (load, _) in WORDS.items())
    found = {word for load, _ in WORDS.values() for word in load()}
    assert found == WORDS.keys()


def test_every_control_is_found_in_its_module() -> None:
    assert all(name in load() for name, load in ELSEWHERE.items())
    found = {name for load in ELSEWHERE.values() for name in load()}
    assert found == ELSEWHERE.keys()
    assert not ELSEWHERE.keys() & HANDLERS.keys()
