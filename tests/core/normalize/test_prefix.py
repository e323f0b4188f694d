"""The rule on preserved thinking, case by case.

What a block is bound to, and when it is omitted.
"""

from typing import Any

import pytest

from clew.core.normalize import prefix
from clew.core.normalize.prefix import (
    CONTROLS_BETA,
    Bound,
    PrefixChain,
    RequestVerdict,
    Thoughts,
    with_bound,
)
from clew.core.normalize.repairs import Repair, describe_repairs
from clew.core.normalize.select import identify_thought

Json = dict[str, Any]
OPUS, FABLE, OLD = "claude-opus-5-5", "claude-fable-5-2", "claude-opus-4-5"
REFUSAL = (
    "messages.1.content.0: ... The block is bound to a different conversation. Remove the block"
)


def binds(name: str) -> bool:
    return name in (OPUS, FABLE)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thought(name: str) -> Json:
    return {"type": "thinking", "thinking": "", "signature": name}


def user(*words: str) -> Json:
    return {"role": "user", "content": [text(each) for each in words]}


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def entry(block: Json, uuid: str, bound: Bound | None = None, model: str = OPUS) -> Json:
    made: Json = {
        "type": "assistant",
        "uuid": uuid,
        "message": {"model": model, "content": [block]},
    }
    return with_bound([made], bound)[0]


class Case:
    """A conversation with a model that thinks once an answer."""

    def __init__(self, told: list[Repair] | None = None, **options: Any) -> None:
        self.thoughts = Thoughts(binds=binds, repairs=told or [], **options)
        self.messages: list[Json] = []
        self.system, self.tools, self.reader, self.may_control = "s", "t", OPUS, False

    def look(self) -> RequestVerdict:
        return self.thoughts.look(
            self.messages,
            system=self.system,
            tools=self.tools,
            reader=self.reader,
            may_control=self.may_control,
        )

    def turn(self, prompt: str, name: str, *, is_recorded: bool = True) -> RequestVerdict:
        self.messages = [*self.messages, user(prompt)]
        look = self.look()
        bound = self.thoughts.bound if is_recorded else None
        self.thoughts.learn([entry(thought(name), f"uuid-{name}", bound, self.reader)])
        self.messages = [*self.messages, said(thought(name), text(f"said {name}"))]
        return look

    def ask(self, prompt: str = "go on") -> RequestVerdict:
        self.messages = [*self.messages, user(prompt)]
        return self.look()

    def reasons(self, look: RequestVerdict) -> dict[str | None, str]:
        return {repair.uuid: repair.detail for repair in look.repairs}


def id_of(name: str) -> str:
    return identify_thought(thought(name))


def two_turns(**options: Any) -> Case:
    case = Case(**options)
    case.turn("one", "a")
    case.turn("two", "b")
    return case


def test_a_conversation_that_grows_keeps_its_thinking_blocks() -> None:
    look = two_turns().ask()
    assert look == RequestVerdict()


@pytest.mark.parametrize("part", ["system", "tools"])
def test_other_instructions_or_tools_part_every_thought_from_what_it_was_made_after(
    part: str,
) -> None:
    case = two_turns()
    setattr(case, part, "other")
    look = case.ask()
    why = prefix.SYSTEM if part == "system" else prefix.TOOLS
    assert case.reasons(look) == {"uuid-a": why, "uuid-b": why}
    assert look.leave_out == {id_of("a"), id_of("b")}
    assert look.behavior == ""
    assert case.look().repairs == []


def test_a_change_leaves_the_thinking_blocks_before_it_and_those_made_since() -> None:
    case = two_turns()
    case.messages[2] = user("two, but other words")
    look = case.ask()
    assert case.reasons(look) == {"uuid-b": prefix.MESSAGES}
    case.messages = [*case.messages[:3], said(text("said b")), *case.messages[4:]]
    assert case.look().repairs == []
    case.messages.pop()
    case.turn("three", "c")
    assert case.ask().repairs == []


def test_where_the_service_leaves_out_what_does_not_fit_it_is_asked_to_and_told_of_once() -> None:
    case = two_turns()
    case.may_control, case.tools = True, "other"
    look = case.ask()
    assert (look.leave_out, look.behavior, len(look.repairs)) == (frozenset(), "drop_block", 2)
    again = case.look()
    assert (again.behavior, again.repairs) == ("drop_block", [])


def test_what_was_told_of_stays_left_out_when_the_session_continues() -> None:
    case = two_turns()
    case.tools = "other"
    told = case.ask().repairs
    later = Case(told)
    later.messages = case.messages
    later.thoughts.learn([entry(thought("a"), "uuid-a"), entry(thought("b"), "uuid-b")])
    look = later.look()
    assert look.leave_out == {id_of("a"), id_of("b")}
    assert look.repairs == []
    later.may_control = True
    assert later.look().behavior == "drop_block"


def test_a_thought_from_the_middle_takes_those_after_it_along_and_the_oldest_may_go() -> None:
    case = two_turns()
    case.turn("three", "c")
    without_a = [*case.messages]
    without_a[1] = said(text("said a"))
    case.messages = without_a
    assert case.ask().repairs == []
    without_b = [*two_turns().messages]
    case = two_turns()
    case.turn("three", "c")
    without_b = [*case.messages]
    without_b[3] = said(text("said b"))
    case.messages = without_b
    assert case.reasons(case.ask()) == {"uuid-c": prefix.GAP}


def test_a_paused_answer_continues_in_its_message_and_its_thinking_blocks_fit() -> None:
    case = Case()
    case.messages = [user("one")]
    case.look()
    case.thoughts.learn([entry(thought("a"), "uuid-a", case.thoughts.bound)])
    case.messages = [user("one"), said(thought("a"), text("wait"))]
    case.look()
    case.thoughts.learn([entry(thought("b"), "uuid-b", case.thoughts.bound)])
    case.messages = [user("one"), said(thought("a"), text("wait"), thought("b"), text("done"))]
    assert case.ask().repairs == []
    case.messages[0] = user("another")
    assert set(case.reasons(case.look())) == {"uuid-a", "uuid-b"}


def test_of_one_message_no_thought_stays_without_the_others() -> None:
    case = Case()
    case.messages = [user("one"), said(thought("a"), text("wait"), thought("b"), text("done"))]
    case.thoughts.learn(
        [
            entry(thought("a"), "uuid-a", model=OLD),
            entry(thought("b"), "uuid-b", Bound(system="other", tools="t", messages="m")),
        ]
    )
    case.reader = OPUS
    look = case.ask()
    assert case.reasons(look) == {"uuid-a": OPUS, "uuid-b": prefix.SYSTEM}
    case = Case()
    case.messages = [user("one"), said(thought("a"), text("wait"), thought("b"), text("done"))]
    case.thoughts.learn(
        [entry(thought("b"), "uuid-b", Bound(system="other", tools="t", messages="m"))]
    )
    look = case.ask()
    assert case.reasons(look) == {"uuid-b": prefix.SYSTEM, None: prefix.GAP}


def test_a_thought_of_which_nothing_is_recorded_is_bound_to_what_stands_before_it_now() -> None:
    case = Case()
    case.turn("one", "a", is_recorded=False)
    case.turn("two", "b", is_recorded=False)
    assert case.ask() == RequestVerdict()
    case.may_control = True
    assert case.look().behavior == "drop_block"
    case.may_control = False
    case.tools = "other"
    assert len(case.look().repairs) == 2


def test_a_log_that_began_as_the_session_does_is_trusted_without_a_record() -> None:
    case = Case(is_as_recorded=True)
    case.may_control = True
    case.turn("one", "a", is_recorded=False)
    assert case.ask() == RequestVerdict()


def test_a_thought_after_blank_text_of_its_answer_is_left_to_the_service() -> None:
    case = Case()
    case.may_control = True
    case.messages = [user("one")]
    case.look()
    blocks = [text(" \n"), thought("a"), text("done")]
    entries = [entry(block, f"uuid-{n}", case.thoughts.bound) for n, block in enumerate(blocks)]
    for each in entries:
        each["message"]["id"] = "msg_1"
    case.thoughts.learn(entries)
    case.messages = [*case.messages, said(*blocks[1:])]
    assert case.ask() == RequestVerdict(behavior="drop_block")
    # A service that cannot leave it out is not sent it.
    case.may_control = False
    look = case.look()
    assert look.leave_out == {id_of("a")}
    assert case.reasons(look) == {"uuid-1": prefix.MESSAGES}
    assert case.look().repairs == []


def test_a_model_that_binds_nothing_is_judged_by_nothing() -> None:
    case = Case()
    case.reader = OLD
    case.turn("one", "a")
    case.system = "other"
    assert case.ask() == RequestVerdict()
    assert case.thoughts.bound is None


def test_thinking_blocks_of_another_model_are_left_out_or_to_the_service() -> None:
    case = two_turns()
    case.reader, case.may_control = FABLE, True
    assert case.ask() == RequestVerdict(behavior="drop_block")
    case.reader = OLD
    assert case.look() == RequestVerdict(behavior="report")
    case.reader, case.may_control = FABLE, False
    look = case.look()
    assert look.leave_out == {id_of("a"), id_of("b")}
    assert {repair.kind for repair in look.repairs} == {"thought_unread"}
    case.reader = OPUS
    assert case.look() == RequestVerdict()
    later = Case(look.repairs)
    later.messages, later.reader = case.messages, FABLE
    later.thoughts.learn([entry(thought("a"), "uuid-a"), entry(thought("b"), "uuid-b")])
    assert later.look() == RequestVerdict(leave_out=frozenset({id_of("a"), id_of("b")}))


def test_a_refusal_is_answered_with_the_control_then_without_the_thinking_blocks() -> None:
    case = two_turns()
    case.may_control = True
    case.ask()
    assert case.thoughts.refused(REFUSAL, may_control=True)
    assert case.look().behavior == "drop_block"
    assert case.thoughts.refused(REFUSAL, may_control=True)
    look = case.look()
    assert look.leave_out == {id_of("a"), id_of("b")}
    assert case.reasons(look) == {"uuid-a": prefix.REFUSED, "uuid-b": prefix.REFUSED}
    case.messages = [user("one"), said(text("said a")), user("two"), said(text("b")), user("go on")]
    case.look()
    assert not case.thoughts.refused(REFUSAL, may_control=True)


def test_a_service_without_the_control_is_not_asked_again() -> None:
    case = two_turns()
    case.may_control, case.tools = True, "other"
    case.ask()
    unknown = "thinking.adaptive.block_binding: Extra inputs are not permitted"
    assert case.thoughts.refused(unknown, may_control=True)
    look = case.look()
    assert (look.behavior, len(look.leave_out), look.repairs) == ("", 2, [])
    assert not case.thoughts.refused(unknown, may_control=True)
    assert not case.thoughts.refused("max_tokens: too large", may_control=True)


def test_a_service_that_refuses_and_has_no_control_is_sent_no_thought() -> None:
    case = two_turns()
    case.may_control = True
    case.ask()
    assert case.thoughts.refused(REFUSAL, may_control=True)
    assert case.look().behavior == "drop_block"
    assert case.thoughts.refused(
        "anthropic-beta: thinking-binding-controls-2026-08-01", may_control=True
    )
    assert len(case.look().leave_out) == 2


def test_a_refused_thought_that_was_told_of_before_is_not_told_of_again() -> None:
    case = two_turns()
    case.may_control, case.tools = True, "other"
    assert len(case.ask().repairs) == 2
    assert case.thoughts.refused(REFUSAL, may_control=True)
    assert case.look().repairs == []


def dropped(path: Any, reason: str = "prefix_binding_mismatch") -> Json:
    return {"type": "thinking_dropped", "path": path, "reason": reason}


def test_what_the_service_reports_is_told_of_once_and_no_answer_is_bound_to_it() -> None:
    case = two_turns()
    case.may_control = True
    case.ask()
    report = [
        dropped("messages.3.content.0"),
        {"type": "thinking_mismatch_allowed", "path": "messages.1.content.0"},
        "nothing",
    ]
    assert [repair.uuid for repair in case.thoughts.dropped(report)] == ["uuid-b"]
    assert case.thoughts.bound is not None
    assert case.thoughts.bound.after == id_of("a")
    assert case.thoughts.dropped(report) == []
    assert case.thoughts.dropped(None) == []
    unread = case.thoughts.dropped([dropped("messages.1.content.0", "model_binding_mismatch")])
    assert [(r.kind, r.uuid, r.detail) for r in unread] == [("thought_unread", "uuid-a", OPUS)]
    assert case.thoughts.dropped([dropped("messages.1.content.0")]) == []
    assert case.thoughts.bound.after == ""


@pytest.mark.parametrize(
    "path",
    [None, "messages", "messages.x.content.0", "messages.9.content.0", "messages.1.content.9",
     "messages.1.content.1", "messages.1.content.x"],
)  # fmt: skip
def test_a_report_of_nothing_that_was_sent_says_nothing(path: Any) -> None:
    case = two_turns()
    case.ask()
    assert case.thoughts.dropped([dropped(path)]) == []


def test_a_model_that_binds_nothing_may_report_too() -> None:
    case = two_turns()
    case.reader, case.may_control = OLD, True
    case.ask()
    report = [dropped("messages.1.content.0", "model_binding_mismatch")]
    assert [repair.detail for repair in case.thoughts.dropped(report)] == [OLD]
    assert case.thoughts.bound is None


@pytest.mark.parametrize("record", [None, [], {"system": "s", "tools": "t", "messages": 3}])
def test_a_record_that_cannot_be_read_says_nothing(record: Any) -> None:
    assert Bound.of({"boundTo": record}) is None


def test_what_an_answer_is_bound_to_stands_with_its_thinking_blocks_alone() -> None:
    bound = Bound(system="s", tools="t", messages="m", after="x")
    with_thought = entry(thought("a"), "1", bound)
    assert Bound.of(with_thought) == bound
    assert "boundTo" not in entry(text("hello"), "2", bound)
    first = Bound(system="s", tools="t", messages="m")
    assert "after" not in entry(thought("a"), "1", first)["boundTo"]
    assert Bound.of(entry(thought("a"), "1", first)) == first


def test_instructions_as_text_and_as_blocks_are_the_same_and_tools_that_wait_do_not_count() -> None:
    assert prefix.digest_system("Be brief.") == prefix.digest_system([text("Be brief.")])
    assert prefix.digest_system("") == prefix.digest_system(None)
    waiting = {"name": "b", "defer_loading": True}
    assert prefix.digest_tools([{"name": "a"}, waiting]) == prefix.digest_tools([{"name": "a"}])


def test_entries_without_thinking_blocks_or_sense_are_passed() -> None:
    thoughts = Thoughts()
    thoughts.learn(
        [
            {"type": "user", "message": {"content": "hi"}},
            {"type": "assistant", "message": None},
            {"type": "assistant", "uuid": 3, "message": {"content": ["x", thought("a")]}},
            {"type": "assistant", "uuid": "4", "message": {"content": [thought("a")]}},
        ]
    )
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    look = thoughts.look(
        [user("hi"), said(redacted)], system="", tools="", reader=OPUS, may_control=False
    )
    assert look == RequestVerdict()


def test_a_message_that_stands_is_read_once() -> None:
    chain = PrefixChain()
    first, second = user("one"), said(thought("a"), text("b"))
    assert chain.follow([first, second]) == 0
    state = chain.state
    assert chain.follow([first, second, user("two"), said(thought("c"))]) == 1
    assert chain.state != state
    assert chain.follow([first, second]) == 1
    assert chain.state == state
    assert chain.follow([user("one"), second]) == 0
    assert chain.state == state
    assert PrefixChain().state == prefix.START


def test_a_change_far_behind_is_seen() -> None:
    case = Case()
    for n in range(10):
        case.turn(f"prompt {n}", f"thought {n}")
    assert case.ask() == RequestVerdict()
    case.messages = [*case.messages]
    case.messages[2] = user("another prompt")
    assert len(case.look().repairs) == 9


def test_a_user_reads_how_many_thinking_blocks_and_why() -> None:
    gone = Repair(kind="thought_unbound", uuid="1", detail=prefix.TOOLS)
    unread = Repair(kind="thought_unread", uuid="2", detail=OPUS)
    media = Repair(kind="media_removed", uuid="3")
    assert describe_repairs([gone, gone]) == (
        "2 earlier thinking blocks are no longer shown to the model: the tools changed"
    )
    assert describe_repairs([media, unread]).endswith(
        f"; 1 earlier thinking block is no longer shown to the model: written by a model other than {OPUS}"
    )


def test_the_beta_of_the_control_is_the_published_one() -> None:
    assert CONTROLS_BETA == "thinking-binding-controls-2026-08-01"


def test_a_thought_of_another_signature_is_left_out_and_stays_so_elsewhere() -> None:
    case = two_turns()
    case.may_control = True
    case.ask()
    unsigned = "messages.1.content.0: Invalid `signature` in `thinking` block"
    assert case.thoughts.refused(unsigned, may_control=True)
    look = case.look()
    assert (look.behavior, look.leave_out) == ("drop_block", {id_of("a"), id_of("b")})
    later = Case(look.repairs)
    later.messages, later.may_control = case.messages, True
    later.thoughts.learn([entry(thought("a"), "uuid-a"), entry(thought("b"), "uuid-b")])
    again = later.look()
    assert (again.leave_out, again.repairs) == (look.leave_out, [])


def test_a_model_that_binds_its_thinking_blocks_unknown_to_clew_is_sent_none_once_it_refused() -> (
    None
):
    case = two_turns()
    case.reader, case.may_control = "our-model", True
    case.ask()
    assert case.thoughts.refused(REFUSAL, may_control=True)
    assert case.look().leave_out == {id_of("a"), id_of("b")}
