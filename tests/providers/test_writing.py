"""Bodies of a growing conversation: byte for byte the same as encoding each completely."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.providers.writing import LEAST_MESSAGES, MOST_CONVERSATIONS, Writing, encode_request

Json = dict[str, Any]
TEXTS = st.sampled_from(["hi", "", "naïve \u2028 \x85", '"quoted"\n', "half \ud83d", "x" * 500])
NUMBERS = st.sampled_from([1, 1.5, 10**400, -0.0, True, None])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grow", "cut", "mark", "change", "anew", "other"]),
        st.integers(0, LEAST_MESSAGES * 2),
        TEXTS,
        NUMBERS,
    ),
    max_size=8,
)


def said(text: str, number: Any = 0) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text, "n": number}]}


def conversation(length: int) -> list[Json]:
    return [said(f"message {number}") for number in range(length)]


@given(STEPS, st.booleans(), st.booleans())
def test_what_is_written_is_what_writing_it_at_once_gives(
    steps: list[tuple[str, int, str, Any]], has_before: bool, has_after: bool
) -> None:
    writing = Writing()
    messages = conversation(LEAST_MESSAGES)
    for step, place, text, number in steps:
        at = min(place, len(messages) - 1)
        whose = "other" if step == "other" else None
        sent = messages
        match step:
            case "grow":
                messages = [*messages, said(text, number), said("", number)]
            case "cut":
                messages = messages[: max(1, at)]
            case "mark":
                sent = [*messages[:at], messages[at] | {"marked": text}, *messages[at + 1 :]]
            case "change":
                messages = [*messages[:at], said(text, number), *messages[at + 1 :]]
            case "anew":
                messages = copy.deepcopy(messages)
        before = {"model": "m", "tools": []} if has_before else {}
        after = {"stream": True} if has_after else {}
        body = before | {"messages": sent} | after
        assert writing.body(body, whose) == encode_request(body)


def test_a_message_is_written_once() -> None:
    writing = Writing()
    messages = conversation(LEAST_MESSAGES)
    first = writing.body({"messages": messages}, None)
    # Nobody does this: it shows that what was written is not looked at again.
    messages[3]["content"] = "changed"
    longer = writing.body({"messages": [*messages, said("more")]}, None)
    assert longer.startswith(first.removesuffix(b"]}"))


def test_conversations_that_take_turns_keep_what_is_theirs_and_only_the_last_ones_do() -> None:
    writing = Writing()
    talks = {str(number): conversation(LEAST_MESSAGES) for number in range(MOST_CONVERSATIONS + 1)}
    before = {whose: writing.body({"messages": talk}, whose) for whose, talk in talks.items()}
    for talk in talks.values():
        talk[0]["content"] = "changed"
    kept = [
        whose
        for whose in reversed(talks)
        if writing.body({"messages": talks[whose]}, whose) == before[whose]
    ]
    assert sorted(kept) == list(talks)[1:]


def test_messages_that_someone_brought_in_another_shape_are_written_as_they_are() -> None:
    body = {"messages": {"odd": 1}, "model": "m"}
    assert Writing().body(body, None) == encode_request(body)
