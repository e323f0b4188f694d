"""Skills are listed for the model once, within a budget; active ones can be repeated."""

from typing import Any

from clew.core.normalize.tokens import estimate_text_tokens
from clew.parts.skills.listing import (
    KEPT_TOKENS,
    active,
    find_listed_names,
    make_kept_facts,
    make_listing_fact,
    search_skills,
)
from clew.parts.skills.skill import Skill
from tests.requirements import requirement


def named(name: str, description: str = "Does it.", when: str = "") -> Skill:
    return Skill(name=name, origin="user", file="f", description=description, when=when)


def entry(payload: dict[str, Any]) -> dict[str, Any]:
    return {"type": "attachment", "attachment": payload}


def test_each_skill_is_told_once_and_the_end_of_one_too() -> None:
    first = make_listing_fact((), [named("a", when="When asked."), named("b", "")])
    assert first is not None
    assert first.rendered[0].split("\n")[1:] == ["- a: Does it. When asked.", "- b: "]
    log = [entry(first.payload), {"type": "user"}, entry({"type": KIND, "skills": "no list"})]
    assert find_listed_names(log) == {"a", "b"}
    assert make_listing_fact(find_listed_names(log), [named("a"), named("b")]) is None
    second = make_listing_fact(find_listed_names(log), [named("b"), named("c", "", "Soon.")])
    assert second is not None
    assert second.rendered[0].split("\n")[1:] == ["- c: Soon.", "Removed skills:", "a"]
    assert find_listed_names([*log, entry(second.payload)]) == {"b", "c"}


KIND = "skill_listing"


@requirement("R221")
def test_five_hundred_skills_fit_into_two_thousand_tokens() -> None:
    many = [named(f"skill-number-{i}", "Does one thing or another. " * 9) for i in range(500)]
    fact = make_listing_fact((), many)
    assert fact is not None
    assert estimate_text_tokens(fact.rendered[0]) <= 2_000
    assert fact.rendered[0].endswith("more; find them with the Skill tool's `search`.")
    assert find_listed_names([entry(fact.payload)]) == {one.name for one in many}


def test_fewer_skills_are_told_in_longer_forms() -> None:
    few = make_listing_fact((), [named(str(i), "word " * 70) for i in range(12)])
    more = make_listing_fact((), [named(str(i), "word " * 70) for i in range(40)])
    assert few is not None
    assert more is not None
    assert len(few.rendered[0]) / 12 > 2 * len(more.rendered[0]) / 40
    assert not more.payload["unlisted"]


def test_a_search_finds_by_name_and_by_words() -> None:
    skills = [named("deploy", "Ships it"), named("tests", "Runs before deploy"), named("x")]
    assert [one.name for one in search_skills("Deploy", skills)] == ["deploy", "tests"]
    assert search_skills("nothing", skills) == []


def called_by_person(name: str, text: str) -> dict[str, Any]:
    origin = {"kind": "skill", "name": name}
    return {"type": "user", "origin": origin, "message": {"content": text}}


def called_by_model(name: str, text: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "content": text}
    return {"type": "user", "toolUseResult": {"skill": name}, "message": {"content": [block]}}


def test_what_is_at_work_is_read_off_the_conversation() -> None:
    log = [
        called_by_person("a", "old"),
        called_by_model("b", "words"),
        called_by_person("a", "new"),
        called_by_model("c", [{"type": "text"}]),
        {"type": "user", "origin": {"kind": "skill", "name": "d"}},
        {"type": "user", "toolUseResult": {"skill": "e"}, "message": {"content": []}},
        {"type": "attachment", "attachment": {"type": "invoked_skills", "skills": "no list"}},
        {"type": "attachment", "attachment": {"type": "invoked_skills", "skills": ["no object"]}},
    ]
    assert active(log) == [("b", "words"), ("a", "new")]
    (fact,) = make_kept_facts(log)
    assert fact.rendered[0].index("## Skill b") < fact.rendered[0].index("## Skill a")
    assert active([entry(fact.payload)]) == active(log)
    assert make_kept_facts([]) == []


def test_what_is_kept_has_its_bounds() -> None:
    long = "word " * 40_000
    log = [called_by_model(str(i), long) for i in range(9)]
    (fact,) = make_kept_facts(log)
    names = [one["name"] for one in fact.payload["skills"]]
    assert names == ["4", "5", "6", "7", "8"]
    assert estimate_text_tokens(fact.rendered[0]) < 5.5 * KEPT_TOKENS
