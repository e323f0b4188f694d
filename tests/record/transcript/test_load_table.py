"""Every row of what another client does with a damaged or odd file, and what clew does with it.

"=" rows are matched; on ">" rows, where that client loses something, clew does not. One generated
file a row; the expected conversation is written as the names of its entries.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript.load import load
from clew.record.transcript.policy import NOBODY
from tests.record.transcript.build import (
    boundary,
    call,
    encoded,
    entry,
    kept,
    last_prompt,
    names,
    result,
    said,
    summary,
    talk,
    uid,
    user,
    write,
)
from tests.requirements import requirement

Lines = list[dict[str, Any] | bytes]
U1, A1, U2, A2, U3, A3 = talk(3)


def without(line: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {k: v for k, v in line.items() if k not in keys}


def hung(line: dict[str, Any], parent: Any) -> dict[str, Any]:
    return line | {"parentUuid": uid(parent) if isinstance(parent, str) else parent}


# The reference client withdraws the marker of a rewind once a prompt follows it.
WITHDRAWN = {"type": "last-prompt", "leafUuid": NOBODY, "explicit": True}
AT_START = {**WITHDRAWN, "atStart": True}
TWO_CALLS = [
    user("u1", None),
    said("t1", "u1", call("x"), of="m"),
    said("t2", "t1", call("y"), of="m"),
]
COMPACTED = [*talk(2), boundary("b"), summary("s", "b")]

AHEAD = said("t1", "a1", call("x"), of="m")
WRITTEN_AHEAD: Lines = [
    {"type": "tool-started", "owed": [AHEAD, said("t2", "t1", call("y"), of="m")]}
]
# Cut inside the second of its entries, as a full disk does.
TORN_AHEAD: Lines = [U1, A1, encoded(WRITTEN_AHEAD)[:-60]]

# Two compactions that kept the same end, and a prompt behind the first.
TWICE = [
    *talk(2),
    boundary("b", **kept("u2", "a2", "s")),
    summary("s", "b"),
    user("u3", "a2"),
    last_prompt("a2", explicit=True) | {"boundaryUuid": uid("b")},
    boundary("c", **kept("u2", "a2", "t")) | {"logicalParentUuid": uid("a2")},
    summary("t", "c"),
]


def withdrawn(name: str) -> dict[str, Any]:
    return {"type": "tombstone", "messageUuid": uid(name)}


def back_to_the_end(**more: Any) -> dict[str, Any]:
    return last_prompt("a2", explicit=True) | more


ROWS: dict[str, tuple[Lines, str]] = {
    # -- damage of lines
    "= an unfinished last line": ([*talk(2), b'{"type":"user","uu'], "u1 a1 u2 a2"),
    "= a garbage line": ([U1, b"{oops\n", A1], "u1 a1"),
    "= NULs": ([U1, b"\0" * 512 + b"\n", A1, b"\0" * 512], "u1 a1"),
    "= NULs before a line": ([U1, b"\0" * 64, A1], "u1 a1"),
    "= blank lines": ([b"\n", U1, b"\n\n", A1], "u1 a1"),
    "= CRLF": ([encoded(talk(2)).replace(b"\n", b"\r\n")], "u1 a1 u2 a2"),
    "= a BOM": ([b"\xef\xbb\xbf", *talk(1)], "u1 a1"),
    "= lines that are no objects": ([U1, b"[1]\n7\nnull\n", A1], "u1 a1"),
    "= invalid UTF-8": ([U1, encoded([A1]).replace(b'"a1"', b'"\xff"'), U2], "u1 a1 u2"),
    "= a lone surrogate": ([U1, encoded([A1]).replace(b'"a1"', b'"\\ud800"'), U2], "u1 a1 u2"),
    "= nothing": ([], ""),
    "= only line ends": ([b"\n\r\n\n"], ""),
    "> two entries in one line": ([U1, encoded([A1, U2]).replace(b"\n", b"") + b"\n"], "u1 a1 u2"),
    "> two entries in one line, one of which no strict reader takes": (
        [U1, encoded([A1]).strip() + b" " + encoded([U2]).replace(b'"u2"', b'"\\ud800"'), A2],
        "u1 a1 u2 a2",
    ),
    "> an entry behind a torn one": ([U1, encoded([A2])[:90] + encoded([A1]), U2], "u1 a1 u2"),
    "> a line beside the chain behind a torn one": (
        [*talk(2), b'{"torn":"' + encoded([last_prompt("a1", explicit=True)])],
        "u1 a1",
    ),
    # -- what is left out
    "> timestamps missing": ([without(m, "timestamp") for m in talk(2)], "u1 a1 u2 a2"),
    "> timestamps that are numbers": ([m | {"timestamp": 5} for m in talk(2)], "u1 a1 u2 a2"),
    "> no parent key anywhere": ([without(m, "parentUuid") for m in talk(2)], "u1 a1 u2 a2"),
    "> no uuid anywhere": ([without(m, "uuid") for m in talk(2)], "? ? ? ?"),
    "= the bare minimum": (
        [{k: m[k] for k in ("type", "uuid", "parentUuid", "message")} for m in talk(2)],
        "u1 a1 u2 a2",
    ),
    "= another session id": ([m | {"sessionId": "x"} for m in talk(1)], "u1 a1"),
    "= no type": ([without(m, "type") for m in talk(1)], ""),
    # -- parents
    "= garbage in place of a middle entry": ([U1, A1, b"{oops\n", A2], "u1 a1 a2"),
    "= the first entry's parent is nowhere": ([hung(U1, "gone"), A1], "u1 a1"),
    "= a middle entry's parent is nowhere": ([U1, A1, hung(U2, "gone"), A2], "u1 a1 u2 a2"),
    "= the last entry's parent is nowhere": ([U1, A1, U2, hung(A2, "gone")], "u1 a1 u2 a2"),
    "= two parents are nowhere": ([U1, hung(A1, "g1"), U2, hung(A2, "g2")], "u1 a1 u2 a2"),
    "= its own parent": ([U1, A1, hung(U2, "u2"), A2], "u1 a1 u2 a2"),
    "= a cycle of four": ([hung(U1, "a2"), A1, U2, A2], "u1 a1 u2 a2"),
    "= a cycle of four after a beginning": (
        [user("u0", None), said("a0", "u0"), hung(U1, "a2"), A1, U2, A2, hung(U3, "a2")],
        "u0 a0 u1 a1 u2 a2 u3",
    ),
    "= a null parent in the middle": ([U1, A1, hung(U2, None), A2], "u2 a2"),
    "= shuffled lines": ([A2, U1, U2, A1], "u1 a1 u2 a2"),
    "> a parent that is a number": ([U1, A1, hung(U2, 7), A2], "u1 a1 u2 a2"),
    # -- branches
    "= two branches, no marker": ([*talk(2), user("v2", "a1"), said("b2", "v2")], "u1 a1 v2 b2"),
    "= branches and a marker": (
        [*talk(2), user("v2", "a1"), said("b2", "v2"), last_prompt("a2")],
        "u1 a1 u2 a2",
    ),
    "> a marker on an inner node of a branch": (
        [*talk(2), user("v2", "a1"), said("b2", "v2"), last_prompt("u2")],
        "u1 a1 u2 a2",
    ),
    "> a marker older than the newest branch": (
        [*talk(2), last_prompt("a2"), user("v2", "a1"), said("b2", "v2")],
        "u1 a1 v2 b2",
    ),
    "= one leaf, a marker on an inner node": ([*talk(2), last_prompt("u2")], "u1 a1 u2 a2"),
    "= an explicit marker on an inner node": (
        [*talk(2), last_prompt("a1", explicit=True)],
        "u1 a1",
    ),
    "= a prompt after an explicit marker": (
        [*talk(2), last_prompt("a1", explicit=True), user("v2", "a1")],
        "u1 a1 v2",
    ),
    "> a boundary that closed what hangs below it, behind a marker": (
        [
            U1,
            last_prompt("u1", explicit=True),
            said("x", "y"),
            boundary("b") | {"logicalParentUuid": uid("x")},
            user("y", "b", promptSource="typed"),
        ],
        "y x",
    ),
    "> a late result of the branch that was left": (
        [*talk(2), last_prompt("a1", explicit=True), entry("system", "z", "a2", subtype="x")],
        "u1 a1",
    ),
    "> a prompt typed on the branch that was left": (
        [*talk(2), last_prompt("a1", explicit=True), user("u3", "a2", promptSource="typed")],
        "u1 a1 u2 a2 u3",
    ),
    "> rewound to before the first message": ([*talk(2), AT_START], ""),
    "> a prompt after that": ([*talk(2), AT_START, user("v", None)], "v"),
    "> a late result after that": (
        [*talk(2), AT_START, entry("system", "z", "a2", subtype="x")],
        "",
    ),
    "= the marker of a rewind is withdrawn before the next prompt": (
        [*talk(3), last_prompt("a2", explicit=True), WITHDRAWN, user("v", "a2")],
        "u1 a1 u2 a2 v",
    ),
    "= the marker of a rewind is withdrawn after the next prompt": (
        [*talk(3), last_prompt("a2", explicit=True), user("v", "a2"), WITHDRAWN],
        "u1 a1 u2 a2 v",
    ),
    "= a marker is withdrawn and no prompt follows": (
        [*talk(2), last_prompt("a1"), WITHDRAWN],
        "u1 a1 u2 a2",
    ),
    "> a marker that names nothing": ([*talk(2), last_prompt("gone")], "u1 a1 u2 a2"),
    "> a marker on a withdrawn entry": (
        [
            *talk(2),
            withdrawn("a1"),
            last_prompt("a1", explicit=True),
        ],
        "u1",
    ),
    "> a marker on a sidechain": (
        [*talk(1), user("x1", None, isSidechain=True), last_prompt("x1")],
        "u1 a1",
    ),
    "> a marker and nothing else that talks": (
        [entry("system", "y", None), last_prompt("y")],
        "",
    ),
    "> a marker without a leaf, a tombstone without a name": (
        [*talk(1), {"type": "last-prompt", "lastPrompt": "x"}, {"type": "tombstone"}],
        "u1 a1",
    ),
    # -- doubles and foreign kinds
    "= a uuid twice": (
        [U1, said("a1", "u1", {"type": "text", "text": "old"}), U2, A1],
        "u1 a1 u2",
    ),
    "= a uuid twice with another type": ([U1, entry("progress", "a1", "u1"), A1, U2], "u1 a1 u2"),
    "= progress beside the chain": ([U1, entry("progress", "p", "u1"), A1], "u1 a1"),
    "= progress in the chain": (
        [U1, entry("progress", "p", "u1"), entry("progress", "q", "p"), hung(A1, "q")],
        "u1 a1",
    ),
    "= an unknown kind in the chain": ([U1, entry("novel", "n", "u1"), hung(A1, "n")], "u1 a1"),
    "= a sidechain beside the chain": (
        [U1, A1, user("x1", None, isSidechain=True), said("y1", "x1", isSidechain=True)],
        "u1 a1",
    ),
    "= a sidechain entry inside the chain": ([U1, A1 | {"isSidechain": True}, U2], "u1 a1 u2"),
    "> a cycle behind a sidechain": (
        [*talk(1), user("x1", None, isSidechain=True), hung(U2, "a2"), A2],
        "u1 a1 u2 a2",
    ),
    "> progress without a parent key, first": (
        [without(entry("progress", "p", None), "parentUuid"), hung(U1, "p"), A1],
        "u1 a1",
    ),
    "> nothing but a sidechain": ([m | {"isSidechain": True} for m in talk(1)], "u1 a1"),
    "= attachments and system entries in the chain": (
        [
            U1,
            entry("attachment", "t", "u1", attachment={}),
            entry("system", "y", "t"),
            hung(A1, "y"),
        ],
        "u1 t y a1",
    ),
    "= a notice that hangs on nothing, last": ([*talk(1), entry("system", "y", None)], "u1 a1"),
    # -- calls and results
    "= a call without a result, last": ([U1, said("t1", "u1", call("x"))], "u1 t1"),
    **{
        f"> an answer whose message is {json.dumps(odd)}": ([U1, A1 | {"message": odd}], "u1 a1")
        for odd in (None, "x", [1], 3, {"content": None}, {"content": [1, None, {"type": 5}]})
    },
    "> an answer without a message": ([U1, without(A1, "message")], "u1 a1"),
    "> a call without a result, in the middle": (
        [U1, said("t1", "u1", call("x")), user("u2", "t1"), said("a2", "u2")],
        "u1 t1 u2 a2",
    ),
    "= parallel results as a native tree": (
        [*TWO_CALLS, result("r2", "t2", "y"), result("r1", "t1", "x"), said("a2", "r1")],
        "u1 t1 t2 r2 r1 a2",
    ),
    "= parallel results, the last one written first": (
        [*TWO_CALLS, result("r1", "t1", "x"), result("r2", "t2", "y"), said("a2", "r2")],
        "u1 t1 t2 r1 r2 a2",
    ),
    "= parallel results in a line": (
        [*TWO_CALLS, result("r1", "t2", "x"), result("r2", "r1", "y"), said("a2", "r2")],
        "u1 t1 t2 r1 r2 a2",
    ),
    "= the next answer hangs on the first result": (
        [*TWO_CALLS, result("r1", "t1", "x"), result("r2", "t2", "y"), said("a2", "r1")],
        "u1 t1 t2 r1 r2 a2",
    ),
    "= all results in one entry": (
        [
            *TWO_CALLS,
            user(
                "r",
                "t2",
                [{"type": "tool_result", "tool_use_id": f"toolu_{x}", "content": x} for x in "xy"],
            ),
            said("a2", "r"),
        ],
        "u1 t1 t2 r a2",
    ),
    "= calls that all hang on the prompt": (
        [
            U1,
            said("t1", "u1", call("x"), of="m"),
            said("t2", "u1", call("y"), of="m"),
            result("r1", "t1", "x"),
            result("r2", "t2", "y"),
            said("a2", "r2"),
        ],
        "u1 t1 t2 r1 r2 a2",
    ),
    "= three calls, results in the order they came": (
        [
            *TWO_CALLS,
            said("t3", "t2", call("z"), of="m"),
            result("r3", "t3", "z"),
            result("r1", "t1", "x"),
            result("r2", "t2", "y"),
            said("a2", "r2"),
        ],
        "u1 t1 t2 t3 r3 r1 r2 a2",
    ),
    "> a slow call, and quick ones that hang on each other's results": (
        [
            *TWO_CALLS,
            result("r2", "t2", "y"),
            said("t3", "r2", call("z"), of="m"),
            result("r3", "t3", "z"),
            said("t4", "r3", call("v"), of="m"),
            result("r4", "t4", "v"),
            result("r1", "t1", "x"),
            said("a2", "r1"),
        ],
        "u1 t1 t2 t3 t4 r2 r3 r4 r1 a2",
    ),
    "> the same, and another answer to the quick call": (
        [
            *TWO_CALLS,
            result("r2", "t2", "y"),
            said("t3", "r2", call("z"), of="m"),
            result("r3", "t3", "z"),
            said("b2", "r2", of="other"),
            result("r1", "t1", "x"),
            said("a2", "r1"),
        ],
        "u1 t1 t2 t3 r2 r3 r1 a2",
    ),
    "= one of two results missing, at the end": (
        [*TWO_CALLS, result("r1", "t1", "x")],
        "u1 t1 t2 r1",
    ),
    "> one of two results missing, in the middle": (
        [*TWO_CALLS, result("r1", "t1", "x"), said("a2", "r1")],
        "u1 t1 t2 r1 a2",
    ),
    "> parallel calls without a message id": (
        [
            U1,
            *[
                m | {"message": without(m["message"], "id")}
                for m in (said("t1", "u1", call("x")), said("t2", "t1", call("y")))
            ],
            result("r1", "t1", "x"),
            result("r2", "t2", "y"),
            said("a2", "r1"),
        ],
        "u1 t1 t2 r1 r2 a2",
    ),
    "> one call answered in two branches": (
        [
            U1,
            said("t1", "u1", call("x")),
            result("r1", "t1", "x"),
            said("a1", "r1"),
            result("q1", "t1", "x"),
            said("c1", "q1"),
            last_prompt("a1"),
        ],
        "u1 t1 r1 a1",
    ),
    "> part of the same answer on another branch": (
        [U1, said("a1", "u1", of="m"), said("c1", "u1", of="m"), user("u2", "c1")],
        "u1 c1 u2",
    ),
    "> two tries at one answer that share their thinking": (
        [
            U1,
            said("k", "u1", of="m"),
            said("a1", "k", of="m"),
            said("c1", "k", of="m"),
            user("u2", "c1"),
        ],
        "u1 k c1 u2",
    ),
    "= text behind a call of the same answer": (
        [
            U1,
            said("t1", "u1", call("x"), of="m"),
            said("a1", "t1", of="m"),
            result("r1", "t1", "x"),
            said("a2", "r1"),
        ],
        "u1 t1 a1 r1 a2",
    ),
    "> a call of another answer on another branch": (
        [U1, A1, said("c1", "u1", call("z")), last_prompt("a1")],
        "u1 a1",
    ),
    "> a result that hangs on another result, off the path": (
        [*TWO_CALLS, result("r1", "t2", "x"), result("r2", "r1", "y"), said("a2", "r1")],
        "u1 t1 t2 r1 r2 a2",
    ),
    "> a result that answers nothing, above parallel calls": (
        [
            result("r0", None, "z"),
            said("t1", "r0", call("x"), of="m"),
            said("t2", "t1", call("y"), of="m"),
            result("r1", "t1", "x"),
            result("r2", "t2", "y"),
            said("a2", "r2"),
        ],
        "r0 t1 t2 r1 r2 a2",
    ),
    "> a result that hangs on the prompt behind its answer": (
        [
            *[U1, said("t1", "u1", call("x"), of="m"), said("t2", "t1", call("y"), of="m")],
            *[user("u2", "t1"), result("r1", "t1", "x"), result("r2", "u2", "y"), said("a2", "u2")],
        ],
        "u1 t1 t2 r1 r2 u2 a2",
    ),
    "> a boundary without a summary, whose past stands behind it": (
        [U1, boundary("b") | {"logicalParentUuid": uid("a2")}, said("a1", "b"), said("a2", "a1")],
        "a1 a2",
    ),
    "> two circles, one behind the other": (
        [user("u1", "a1"), said("a1", "u1"), user("u2", "a2"), said("a2", "u2")],
        "u1 a1 u2 a2",
    ),
    "> a session that begins with calls": (
        [
            said("t1", None, call("x"), of="m"),
            said("t2", "t1", call("y"), of="m"),
            result("r2", "t2", "y"),
            result("r1", "t1", "x"),
        ],
        "t1 t2 r2 r1",
    ),
    "> parallel calls, lines shuffled": (
        [
            result("r3", "t3", "z"),
            result("r2", "t2", "y"),
            said("t3", "t2", call("z"), of="m"),
            said("t2", "t1", call("y"), of="m"),
            said("a2", "r1"),
            result("r1", "t1", "x"),
            said("t1", "u1", call("x"), of="m"),
            U1,
        ],
        "u1 t1 t2 t3 r3 r2 r1 a2",
    ),
    "> something written ahead that is no list": (
        [*talk(1), {"type": "tool-started", "owed": 7}, {"type": "tool-started"}],
        "u1 a1",
    ),
    "> a torn line that wrote an entry ahead, which has its place behind": (
        [*TORN_AHEAD, b"\n", AHEAD, result("r1", "t1", "x"), said("a2", "r1")],
        "u1 a1 t1 r1 a2",
    ),
    "> a torn line that wrote an entry ahead, which never got its place": (
        [*TORN_AHEAD, b"\n", last_prompt("a1")],
        "u1 a1 t1",
    ),
    "> a torn line that wrote two entries ahead, in the last line": (
        [*TORN_AHEAD[:-1], encoded(WRITTEN_AHEAD)[:-3]],
        "u1 a1 t1 t2",
    ),
    # -- compactions
    "= an attachment between a boundary and its summary": (
        [
            *talk(1),
            boundary("b"),
            entry("attachment", "t", "b"),
            summary("s", "t"),
            user("u2", "s"),
        ],
        "b t s u2",
    ),
    "= a boundary": ([*COMPACTED, user("u3", "s")], "b s u3"),
    "= a boundary that is linked": (
        [*talk(2), boundary("b", "a2"), summary("s", "b"), user("u3", "s")],
        "b s u3",
    ),
    "> a boundary last, not linked": ([*talk(2), boundary("b")], "u1 a1 u2 a2"),
    "> a boundary last, linked": ([*talk(2), boundary("b", "a2")], "u1 a1 u2 a2"),
    "> a boundary without a summary": (
        [*talk(2), boundary("b"), user("u3", "b"), said("a3", "u3")],
        "u1 a1 u2 a2 u3 a3",
    ),
    "= a kept segment": (
        [*talk(2), boundary("b", **kept("u2", "a2", "s")), summary("s", "b"), user("u3", "s")],
        "b s u2 a2 u3",
    ),
    "= a kept segment, the next prompt hung on its tail": (
        [*talk(2), boundary("b", **kept("u2", "a2", "s")), summary("s", "b"), user("u3", "a2")],
        "b s u2 a2 u3",
    ),
    "= a kept list": (
        [
            *talk(2),
            boundary(
                "b", preservedMessages={"anchorUuid": uid("s"), "uuids": [uid("u2"), uid("a2")]}
            ),
            summary("s", "b"),
            user("u3", "s"),
        ],
        "b s u2 a2 u3",
    ),
    "= a kept segment anchored to nothing known": (
        [*talk(2), boundary("b", **kept("u2", "a2", "gone")), summary("s", "b"), user("u3", "s")],
        "b s u2 a2 u3",
    ),
    "> two compactions that kept one end": (TWICE, "c t u2 a2"),
    "> what was said behind the first of them": (
        [*TWICE, last_prompt("u3", explicit=True)],
        "b s u2 a2 u3",
    ),
    "> the way back to the first of them": (
        [*TWICE, back_to_the_end(boundaryUuid=uid("b"))],
        "b s u2 a2",
    ),
    "> what is said there": (
        [*TWICE, back_to_the_end(boundaryUuid=uid("b")), user("v3", "a2")],
        "b s u2 a2 v3",
    ),
    "> the way back to before both": ([*TWICE, back_to_the_end(boundaryUuid=None)], "u1 a1 u2 a2"),
    "> the way back to one that was taken back": (
        [*TWICE, back_to_the_end(boundaryUuid=uid("c")), withdrawn("t"), withdrawn("c")],
        "b s u2 a2",
    ),
    "= a way back that does not say to which": ([*TWICE, back_to_the_end()], "c t u2 a2"),
    "= a way back to one that is not there, or is none": (
        [*TWICE, back_to_the_end(boundaryUuid=uid("gone")), back_to_the_end(boundaryUuid=7)],
        "c t u2 a2",
    ),
    "> the way back to one that kept another end": (
        [
            *TWICE,
            user("u4", "a2"),
            boundary("d", **kept("u4", "u4", "w")),
            summary("w", "d"),
            back_to_the_end(boundaryUuid=uid("d")),
        ],
        "u1 a1 u2 a2",
    ),
    "= a kept segment that points nowhere": (
        [*talk(2), boundary("b", **kept("x", "y", "s")), summary("s", "b"), user("u3", "s")],
        "b s u3",
    ),
    "= a branch to before the boundary": (
        [*COMPACTED, user("u3", "s"), user("v2", "a1")],
        "u1 a1 v2",
    ),
    "= rewound to before the boundary": (
        [*COMPACTED, user("u3", "s"), last_prompt("a1", explicit=True)],
        "u1 a1",
    ),
    "= a summary without a boundary": (
        [*talk(1), summary("s", "a1"), user("u2", "s")],
        "u1 a1 s u2",
    ),
    "= two boundaries": (
        [*COMPACTED, user("u3", "s"), boundary("c"), summary("d", "c"), user("u4", "d")],
        "c d u4",
    ),
    "> a boundary that a copy brought home a second time": (
        [*COMPACTED, user("u3", "s"), boundary("b")],
        "b s u3",
    ),
    "> a compaction that says it kept its own summary": (
        [*talk(2), boundary("b", **kept("u2", "s", "s")), summary("s", "b"), user("u3", "s")],
        "b s u3",
    ),
    # What stands below the last boundary and by itself is the conversation, whatever is above it.
    "> an id of before the last boundary, again behind it": (
        [U1, said("s", "u1"), boundary("b"), summary("s", "b"), user("u2", "s")],
        "b s u2",
    ),
    "> an entry above the last boundary that hangs on one behind it": (
        [U1, said("x", "s", of="m"), boundary("b"), summary("s", "b"), said("a1", "s", of="m")],
        "b s a1",
    ),
    "> an id of before what was kept, behind the boundary": (
        [*talk(2), boundary("b", **kept("u2", "a2", "s")), summary("s", "b"), user("u1", "a2")],
        "b s u2 a2 u1",
    ),
    "> a boundary without a summary above the last, in what that kept": (
        [
            *talk(1),
            user("u2", "a1"),
            boundary("b", "u2"),
            user("u3", "b"),
            boundary("c", **kept("u2", "u3", "t")),
            summary("t", "c"),
        ],
        "c t u2 b u3",
    ),
    # -- withdrawn
    "> an entry that was written again behind its tombstone": (
        [U1, said("a1", "u1", of="old"), withdrawn("a1"), A1, U2],
        "u1 a1 u2",
    ),
    "> an entry that was written twice and withdrawn": ([U1, A1, A1, withdrawn("a1")], "u1"),
    "> a tombstone above a boundary that has the id again": (
        [*talk(1), withdrawn("b"), boundary("b"), summary("s", "b"), user("u2", "s")],
        "b s u2",
    ),
    "> a withdrawn answer": (
        [U1, A1, withdrawn("a1"), said("c1", "u1")],
        "u1 c1",
    ),
    "> a withdrawn entry in the chain": (
        [U1, A1, hung(A2, "a1"), withdrawn("a1")],
        "u1 a2",
    ),
}


@pytest.mark.no_cover
@requirement("R172", "R193", "R194", "W34", "C4", "R197")
@pytest.mark.parametrize("row", ROWS)
def test_a_row(row: str, tmp_path: Path) -> None:
    lines, expected = ROWS[row]
    path = write(tmp_path, lines)
    loaded = load(path)
    assert names(loaded.messages) == expected
    assert names(load(path, reads_all=True).messages) == expected


def conversation_lines(lines: Lines) -> int:
    return sum(
        isinstance(line, dict) and line.get("type") in ("user", "assistant", "system", "attachment")
        for line in lines
    )


@pytest.mark.no_cover
@requirement("R251")
@pytest.mark.parametrize(
    "row", [r for r in ROWS if not any(isinstance(x, bytes) for x in ROWS[r][0])]
)
def test_each_conversation_entry_is_live_or_named_with_its_line_and_reason(
    row: str, tmp_path: Path
) -> None:
    lines, _ = ROWS[row]
    loaded = load(write(tmp_path, lines), reads_all=True)
    named = list(loaded.chain.left_out())
    assert len(loaded.messages) + len(named) == conversation_lines(lines)
    assert all(1 <= note.number <= len(lines) and note.rule for note in named)
    assert len({note.number for note in named}) == len(named)


@pytest.mark.parametrize(
    "change", [lambda b: b, lambda b: b + b"\xff", lambda b: b.replace(b'":', b'": ')]
)
def test_what_a_line_says_comes_out_whole(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    line = user("u1", None, "x", novelField={"deep": [1, {"é": None}]})
    path = tmp_path / "x.jsonl"
    path.write_bytes(change(encoded([line])))
    assert load(path).messages == [line]


def test_a_line_of_endless_beginnings_is_not_searched_for_ever(tmp_path: Path) -> None:
    path = write(tmp_path, [U1, b'{"type":' * 5000 + encoded([A1]), U2])
    assert names(load(path).messages) == "u1 u2"
