"""The type of a server's configuration, as displayed."""

from clew.parts.mcp.config import IdeServer, ServerConfig


def test_an_editor_is_a_kind_of_its_own() -> None:
    reach = IdeServer(name="Editor", port=1, token="t", lock_file="1.lock")
    assert ServerConfig(name="ide", scope="session", reach=reach, raw={}).kind == "ide"
