"""The environment of programs that tools start, for hosts that keep their keys from them."""

from clew.system.config.environment import BY_FIELD, for_programs

KEEP = BY_FIELD["keeps_keys_from_programs"].names[0]


def test_the_key_of_the_service_that_is_used_is_kept_from_programs() -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "GEMINI_API_KEY": "sk-2", "PATH": "/bin"}
    assert for_programs(environ | {KEEP: "0"}) == environ | {KEEP: "0"}
    kept = for_programs(environ | {KEEP: "1"})
    assert "OPENAI_API_KEY" not in kept
    assert kept["GEMINI_API_KEY"] == "sk-2"


def test_with_a_key_of_its_own_the_session_uses_no_other_service() -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-0", "OPENAI_API_KEY": "sk-1", KEEP: "1"}
    kept = for_programs(environ)
    assert "ANTHROPIC_API_KEY" not in kept
    assert kept["OPENAI_API_KEY"] == "sk-1"
