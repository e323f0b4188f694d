"""Sealed sessions: the server gets nothing that it could read."""

import json
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from clew.core import wire
from clew.core.messages.errors import UserError
from clew.fronts.remote.sealed import open_frame, open_state, seal_frame, seal_state
from clew.fronts.remote.signing import sign
from clew.record.stores.sealing import (
    FILE,
    Sealer,
    SealError,
    add_keys,
    expand,
    make_sealer,
    read_sealer,
)
from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.test_shared import send
from tests.fronts.remote.yard import Json, Yard

SECRETS = ("xyzzy", "plugh", "touch", "Bash", "claude-sonnet", "Done.")


def write_settings(yard: Yard, **more: object) -> None:
    path = yard.home / "config" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"remoteSealed": True} | more), "utf-8")


def pair(yard: Yard, environ: dict[str, str], *scopes: str) -> None:
    offer = yard.run("pair", *scopes)
    code = offer.until(lambda line: "clew pair" in line).split()[-1]
    claim = yard.run("pair", code, "--name", "Ada's phone", **environ)
    offer.until(lambda line: "y or n" in line)
    offer.type("y")
    assert (offer.end(), claim.end()) == (0, 0)


def stored(yard: Yard) -> bytes:
    """Return all that the server has ever written."""
    return b"".join(path.read_bytes() for path in sorted(yard.home.glob("serve.db*")))


def test_the_server_of_a_sealed_session_stores_only_ciphertext(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "touch xyzzy"}), ("Bash", {"command": "touch plugh"}))
    phone = {"CLEW_CONFIG_DIR": str(tmp_path / "phone"), "CLEW_REMOTE_TOKEN": ""}
    stranger = {"CLEW_CONFIG_DIR": str(tmp_path / "stranger")}
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        write_settings(yard, sessionStore=f"{yard.url}/v1")
        yard.use(yard.url)
        pair(yard, phone)
        worker = yard.worker()
        viewer = yard.viewer(**phone)
        viewer.type("please make the file xyzzy")
        assert viewer.question()["request"]["input"]["command"] == "touch xyzzy"
        viewer.type("y")
        viewer.question()
        viewer.type("n not plugh")
        assert viewer.result()["subtype"] == "success"
        assert [(yard.work / name).exists() for name in ("xyzzy", "plugh")] == [True, False]
        listed = yard.run("attach", **phone)
        assert listed.end() == 0
        assert "please make the file xyzzy" in listed.lines[-1]
        # A viewer with a token but without the key learns that there is a session, and no more.
        watching = yard.viewer(**stranger)
        note = watching.event(lambda p: p.get("type") == "note")
        assert "this session is sealed" in note["content"]
        watching.event(lambda p: p.get("type") == "result")
        assert not [word for word in SECRETS if word in json.dumps(watching.events)]
        # Killed and started again, the worker sends the same bytes.
        worker.kill()
        worker = yard.worker("--resume", yard.session)
        viewer.type("are you there, xyzzy?")
        viewer.result()
        worker.process.terminate()
        assert worker.end() == 143, worker.lines
        assert not any("refuses a frame" in line for line in worker.lines)
        own = yard.transcript.read_bytes()
        # The copy of the transcript is sealed, too.
        pull = ("sessions", "pull", yard.session)
        refused = yard.run(*pull, "--store", f"{yard.url}/v1", **stranger)
        assert refused.end() != 0
        assert "sealed" in refused.lines[-1]
        pushed = yard.run("sessions", "push", yard.session)
        assert pushed.end() == 0, pushed.lines
        pulled = yard.run(*pull, "--store", f"{yard.url}/v1", **phone)
        assert pulled.end() == 0, pulled.lines
        [copy] = (tmp_path / "phone" / "projects").glob(f"*/{yard.session}.jsonl")
        assert copy.read_bytes() == own
        prompts = tmp_path / "phone" / "clew" / "prompts"
        assert any(b"touch" in path.read_bytes() or path.read_bytes() for path in prompts.iterdir())
        yard.server.kill()
        data = stored(yard)
        assert yard.session.encode() in data
        assert not [word for word in (*SECRETS, str(yard.work)) if word.encode() in data]


def test_a_task_on_a_host_is_sealed(tmp_path: Path) -> None:
    project = tmp_path / "xyzzy"
    project.mkdir()
    phone = {"CLEW_CONFIG_DIR": str(tmp_path / "phone"), "CLEW_REMOTE_TOKEN": ""}
    with (
        serving(calls(("Bash", {"command": "touch plugh"}))) as model,
        Yard(tmp_path, model.url) as yard,
    ):
        write_settings(yard, remoteFolders=[str(project)])
        host = yard.run("host", "--name", "tower")
        host.until(lambda line: line.startswith("host tower"))
        pair(yard, phone, "--scopes", "view,answer,prompt,start")
        hosts = yard.run("remote", "hosts", **phone)
        assert hosts.end() == 0
        assert hosts.lines[-1].strip() == str(project)
        started = yard.run("remote", "start", str(project), "plugh, please", **phone)
        assert started.end() == 0, started.lines
        yard.session = started.lines[-1]
        viewer = yard.viewer(**phone)
        viewer.question()
        viewer.type("y")
        viewer.result()
        assert (project / "plugh").exists()
        assert yard.run("remote", "end", yard.session, **phone).end() == 0
        host.until(lambda line: " has ended (" in line)
        yard.server.kill()
        data = stored(yard)
        assert not [word for word in SECRETS[1:] if word.encode() in data]


FRAMES: list[Json] = [
    {"type": "assistant", "uuid": "u1", "message": {"content": "plugh"}, "session_id": "s"},
    wire.make_request("r1", "can_use_tool", {"input": {"command": "plugh"}}) | {"uuid": "u2"},
    wire.make_success("r1", {"behavior": "deny", "message": "plugh"}) | {"uuid": "u3"},
    wire.make_withdrawal("r1") | {"uuid": "u4"},
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame["type"])
def test_a_sealed_frame_shows_what_the_server_needs_and_opens_only_whole(frame: Json) -> None:
    sealer = Sealer([bytes(32)])
    sealed = seal_frame(sealer, "s1", frame)
    assert sealed == seal_frame(sealer, "s1", frame)
    assert "plugh" not in json.dumps(sealed)
    for name in ("type", "uuid", "request_id"):
        assert sealed.get(name) == frame.get(name)
    # A signature is of the sealed frame.
    assert open_frame(sealer, "s1", sign(sealed, "s1", "d1", "k1")) == frame
    assert open_frame(None, "s1", frame) == frame
    other = seal_frame(sealer, "s1", frame | {"uuid": "u9"})["sealed"]
    for session, changed in (
        ("s2", sealed),
        ("s1", sealed | {"type": "user"}),
        ("s1", sealed | {"uuid": "u9"}),
        ("s1", sealed | {"sealed": other}),
        ("s1", sealed | {"sealed": "AQ=="}),
        ("s1", sealed | {"sealed": "not base64!"}),
    ):
        with pytest.raises(SealError):
            open_frame(sealer, session, changed)
    for nobody in (None, Sealer([b"x" * 32])):
        with pytest.raises(SealError, match="no key"):
            open_frame(nobody, "s1", sealed)


def test_a_report_is_replaced_by_a_sealed_one() -> None:
    sealer = Sealer([bytes(32)])
    sealed = seal_state(sealer, "s1", {"cwd": "/plugh"})
    assert sealed["cwd"] is None
    assert "plugh" not in json.dumps(sealed)
    assert open_state(sealer, "s1", sealed) == {"cwd": "/plugh"}
    assert open_state(None, "s1", sealed) == {}
    assert open_state(None, "s1", {"cwd": "/"}) == {"cwd": "/"}


def test_a_machine_keeps_its_key_and_answers_with_the_key_of_the_session(tmp_path: Path) -> None:
    assert read_sealer(tmp_path / "remote") is None
    own = make_sealer(tmp_path / "remote")
    assert make_sealer(tmp_path / "remote").keys == own.keys
    both = add_keys(tmp_path / "remote", [b"x" * 32, own.keys[0]])
    assert both.keys == (own.keys[0], b"x" * 32)
    assert (tmp_path / "remote" / FILE).stat().st_mode & 0o77 == 0
    theirs = Sealer([b"x" * 32])
    text = theirs.seal("s1", b"p", b"plugh")
    assert both.open("s1", b"p", text) == b"plugh"
    assert theirs.open("s1", b"p", both.choose("s1").seal("s1", b"p", b"yes")) == b"yes"
    assert both.choose("s2") is both
    for damaged in ("{}", '{"keys": ["00"]}', '{"keys": [1]}', '{"keys": []}', "{"):
        (tmp_path / "remote" / FILE).write_text(damaged, "utf-8")
        with pytest.raises(UserError, match="restore"):
            make_sealer(tmp_path / "remote")


def test_without_the_package_the_user_learns_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sealer = Sealer([b"n" * 32])
    text = sealer.seal("s9", b"p", b"plugh")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(UserError, match="serve"):
        sealer.seal("s10", b"p", b"plugh")
    with pytest.raises(SealError, match="serve"):
        sealer.open("s9", b"p", text)


def test_keys_follow_as_browsers_derive_them() -> None:
    kdf = HKDF(hashes.SHA256(), 32, None, b"clew seal\ns1")
    assert expand(b"k" * 32, "clew seal\ns1") == kdf.derive(b"k" * 32)


def test_what_nobody_can_open_is_denied_and_said(tmp_path: Path) -> None:
    with (
        serving(calls(("Bash", {"command": "touch made"}))) as model,
        Yard(tmp_path, model.url) as yard,
    ):
        write_settings(yard)
        yard.worker()
        viewer = yard.viewer()
        viewer.type("make it")
        request_id = viewer.question()["request_id"]
        strange = Sealer([b"x" * 32])
        for frame in (
            {"type": "user", "message": {"role": "user", "content": "plugh"}},
            wire.make_success(request_id, {"behavior": "allow"}),
        ):
            send(yard, seal_frame(strange, yard.session, frame))
        viewer.event(lambda p: "no key that opens it" in str(p.get("content")))
        viewer.result()
        assert not (yard.work / "made").exists()
        assert "no key that opens it" in str(yard.entries())
