"""Commands by name: found, added, and suggested for a misspelled name."""

from clew.core.input import Outcome, Registry, Show, SlashCommand


def named(name: str, *aliases: str) -> SlashCommand[None]:
    async def run(_: None, arguments: str) -> Outcome:
        return Show(text=f"{name} {arguments}")

    return SlashCommand(name=name, description=name, run=run, aliases=aliases)


async def test_a_command_is_found_by_its_name_and_its_other_names() -> None:
    registry = Registry([named("review", "look"), named("cost")])
    assert [command.name for command in registry] == ["cost", "review"]
    found = registry.find("look")
    assert found is not None
    assert await found.run(None, "all") == Show(text="review all")
    assert registry.find("nothing") is None


def test_what_is_added_later_has_the_name_and_an_alias_hides_none() -> None:
    first, second = named("a", "b"), named("b")
    registry = Registry([first, second])
    assert registry.find("b") is second
    again = named("a")
    registry.add(again)
    assert registry.find("a") is again


def test_what_was_nearly_typed_is_suggested() -> None:
    registry = Registry([named("permissions")])
    assert registry.nearest("permision") == "permissions"
    assert registry.nearest("xyz") is None
