"""Pairing: a code, a confirmation, and from then on only signed messages."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from clew.fronts.remote.signing import (
    derive_share_key,
    is_signed,
    make_claim,
    make_key,
    read_code,
    sign,
    write_code,
)
from clew.serve import log
from clew.serve.log import SentEvent
from clew.serve.sqlite import SqliteDatabase
from clew.system.config.own_files import VERSION
from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.yard import Watching, Yard


def test_only_paired_devices_are_believed(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "touch more"}))
    phone = {"CLEW_CONFIG_DIR": str(tmp_path / "phone"), "CLEW_REMOTE_TOKEN": ""}
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        offer = yard.run("pair")
        code = offer.until(lambda line: "clew pair" in line).split()[-1]
        assert yard.run("pair", "AAAA-" + code[5:], **phone).process.wait(60) == 1
        assert yard.run("pair", "nonsense", **phone).process.wait(60) == 1
        claim = yard.run("pair", code, "--name", "Ada's phone", **phone)
        assert "Ada's phone" in offer.until(lambda line: "y or n" in line)
        # Nobody else can claim the same code meanwhile.
        assert yard.run("pair", code, "--name", "Eve", **phone).process.wait(60) == 1
        offer.type("y")
        assert (offer.end(), claim.end()) == (0, 0)
        kept = tmp_path / "phone" / "clew" / "remote" / "device.json"
        assert kept.stat().st_mode & 0o77 == 0
        keys = tmp_path / "config" / "clew" / "remote" / "paired.json"
        assert [json.loads(p.read_bytes())["version"] for p in (kept, keys)] == [VERSION, VERSION]
        yard.worker()
        # The server's owner has a token that allows everything, but no key of this machine.
        stolen, paired = yard.viewer(), yard.viewer(**phone)
        stolen.type("do something bad")
        assert "refused" in notice(stolen)["content"]
        stolen.type("/model other")
        said = stolen.event(lambda p: p["type"] == "control_response")
        assert said["response"]["subtype"] == "error"
        assert not model.requests
        paired.type("please make a file")
        paired.question()
        stolen.question()
        paired.type("y")
        paired.question()
        stolen.question()
        stolen.type("y")
        assert paired.result()["subtype"] == "success"
        assert (yard.work / "made").exists()
        assert not (yard.work / "more").exists()
        refused = offer_again(yard)
        refused.type("n")
        assert refused.end() == 1
        # Keys of a newer clew still count, and are not overwritten.
        newer = json.loads(keys.read_bytes()) | {"version": VERSION + 1}
        keys.write_text(json.dumps(newer), "utf-8")
        late = offer_again(yard)
        late.type("y")
        assert late.end() == 1
        assert "a newer version of clew wrote this file" in late.lines[-1]
        stolen.type("/model other")
        stolen.event(
            lambda p: p["type"] == "control_response" and p["response"]["subtype"] == "error"
        )
        assert json.loads(keys.read_bytes()) == newer


def test_a_server_that_repeats_signed_messages_gets_nothing_done_twice(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "touch more"}))
    phone = {"CLEW_CONFIG_DIR": str(tmp_path / "phone"), "CLEW_REMOTE_TOKEN": ""}
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        offer = yard.run("pair")
        code = offer.until(lambda line: "clew pair" in line).split()[-1]
        claim = yard.run("pair", code, "--name", "phone", **phone)
        offer.until(lambda line: "y or n" in line)
        offer.type("y")
        assert (offer.end(), claim.end()) == (0, 0)
        yard.worker()
        viewer = yard.viewer(**phone)
        viewer.type("make two files")
        viewer.question()
        viewer.type("y")
        # The server repeats what the phone sent, as other events.
        viewer.question()
        first, path = yard.session, tmp_path / "serve.db"
        asyncio.run(repeat(path, first, first))
        viewer.type("n not that one")
        viewer.result()
        viewer.type("once more")
        viewer.result()
        assert (yard.work / "made").exists()
        assert not (yard.work / "more").exists()
        prompts = [e["message"]["content"] for e in yard.entries() if e.get("origin")]
        assert prompts == ["make two files", "once more"]
        # In another session of the same machine, the signatures are not valid.
        yard.worker()
        requests = len(model.requests)
        other = yard.viewer()
        asyncio.run(repeat(path, first, yard.session))
        other.type("this makes the server look")
        for _ in range(4):
            other.event(lambda p: "A remote prompt was refused" in str(p.get("content")))
        assert len(model.requests) == requests


async def repeat(path: Path, session: str, to: str) -> None:
    """Store what viewers sent in a session so far again, under new IDs."""
    database = SqliteDatabase(path)
    events = await database.read(lambda t: log.read_events(t, session, 0, 1_000, "client"))
    copies = [SentEvent(id=str(uuid.uuid4()), kind=e.kind, body=e.body) for e in events]
    await database.write(lambda t: log.append_events(t, to, "client", copies, by="x", now_ms=1))
    await database.aclose()


def offer_again(yard: Yard) -> Any:
    """Return a pairing that somebody has claimed."""
    offer = yard.run("pair", "--scopes", "view")
    code = offer.until(lambda line: "clew pair" in line).split()[-1]
    yard.run("pair", code, "--name", "Mallory")
    offer.until(lambda line: "y or n" in line)
    return offer


def notice(viewer: Watching) -> Any:
    return viewer.event(lambda p: p.get("subtype") == "informational")


def test_a_signature_is_of_one_message_in_one_session() -> None:
    keys = {"d1": "k1"}
    payload = {"type": "user", "uuid": "u1", "message": {"content": "hi", "role": "user"}}
    signed = sign(payload, "s1", "d1", "k1")
    assert is_signed(dict(reversed(signed.items())), "s1", keys)
    for other in (
        payload,
        signed | {"uuid": "u2"},
        signed | {"clew_mac": {"device": "d1", "mac": 5}},
        signed | {"clew_mac": {"device": "d2", "mac": signed["clew_mac"]["mac"]}},
        sign(payload, "s1", "d1", "k2"),
        sign(payload, "s2", "d1", "k1"),
    ):
        assert not is_signed(other, "s1", keys)
    secret = bytes(range(20))
    assert read_code(write_code(secret).lower()) == secret
    # The server gets the claim, from which neither the secret nor the key follows.
    assert len({make_claim(secret), make_key(secret), secret.hex()}) == 3
    for wrong in ("", "AAAA", "not base32!"):
        with pytest.raises(ValueError, match=r"length|base32|ascii|padding|character|digit"):
            read_code(wrong)


def test_the_key_of_a_link_signs_only_what_the_link_permits_and_until_it_expires() -> None:
    keys = {"d1": "k1"}
    prompt = {"type": "user", "uuid": "u1"}
    stop = {"type": "control_request", "request": {"subtype": "interrupt"}}
    mode = {"type": "control_request", "request": {"subtype": "set_permission_mode"}}
    allow = {"type": "control_response", "response": {}}

    def is_believed(payload: Any, share: str, made: str = "", now_ms: int = 50) -> bool:
        key = derive_share_key("k1", "s1", made or share)
        signed = sign(payload, "s1", "d1", key)
        signed["clew_mac"] = signed["clew_mac"] | {"share": share}
        return is_signed(signed, "s1", keys, now_ms)

    answers = "id1.view,answer.100"
    assert is_believed(allow, answers)
    assert is_believed(stop, answers)
    assert not is_believed(prompt, answers)
    assert not is_believed(mode, answers)
    assert is_believed(prompt, "id1.view,prompt.100")
    assert not is_believed(allow, answers, now_ms=101)
    # A link can't be changed into one that allows more, or lasts longer.
    assert not is_believed(prompt, "id1.view,answer,prompt.100", made=answers)
    assert not is_believed(allow, "id1.view,answer.900", made=answers, now_ms=101)
    assert not is_believed(allow, "id1.view,answer.never")
    assert not is_signed(sign(allow, "s1", "d9", "k1"), "s1", keys)
