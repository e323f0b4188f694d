"""clew's own files have a version: those of each release stay readable, newer ones stay unchanged."""

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clew.parts.plugins.store import Store
from clew.system.config import own_files
from clew.system.config.keys import read_login
from clew.system.config.load import read_saved_rules, read_trusted
from clew.system.config.own_files import read_own, read_version, write_own
from clew.system.config.paths import Places, find_places
from tests.fronts.headless.clew_process import clew

# The files as each version of clew wrote them. Add a folder for each release; never change one.
CORPUS = Path(__file__).parent / "own_files"
RELEASES = sorted(path.name for path in CORPUS.iterdir())
NOWHERE = "http://127.0.0.1:1"


def places_of(home: Path, release: str) -> Places:
    """Return the places of a home with the files of a release in it."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    own = home / "config" / "clew"
    for source in (CORPUS / release).rglob("*.json"):
        target = own / source.relative_to(CORPUS / release)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text("utf-8").replace("/home/ada/project", str(work.resolve()))
        target.write_text(text, "utf-8")
        target.chmod(0o600)
    return find_places({"HOME": str(home), "CLEW_CONFIG_DIR": str(home / "config")}, work)


@pytest.mark.parametrize("release", RELEASES)
def test_files_of_every_release_are_read(tmp_path: Path, release: str) -> None:
    places = places_of(tmp_path, release)
    assert read_trusted(places) == {str(places.root.resolve())}
    assert read_saved_rules(places) == {"Bash(make test)"}
    assert read_login(places.credentials) == "sk-example"
    store = Store(places)
    assert set(store.own()) == {"tidy@market"}
    assert set(store.markets()) == {"market"}


@pytest.mark.parametrize("release", RELEASES)
def test_a_change_keeps_what_a_release_wrote(tmp_path: Path, release: str) -> None:
    places = places_of(tmp_path, release)
    other = tmp_path / "other"
    other.mkdir()
    done = clew(tmp_path, NOWHERE, "config", "trust", str(other))
    assert done.returncode == 0, done.stderr
    assert read_trusted(places) == {str(places.root.resolve()), str(other.resolve())}
    assert read_saved_rules(places) == {"Bash(make test)"}
    assert read_version(places.trust) == own_files.VERSION


# The file, and a command that would change it.
CHANGES: Mapping[str, tuple[str, ...]] = {
    "trust.json": ("config", "trust"),
    "credentials.json": ("login",),
    "mcp-projects.json": ("mcp", "approve", "files"),
    "plugins/marketplaces.json": ("plugin", "marketplace", "add", "../market"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_of_a_newer_clew_is_not_changed(tmp_path: Path, name: str) -> None:
    places = places_of(tmp_path, RELEASES[-1])
    (places.cwd / ".mcp.json").write_text('{"mcpServers": {"files": {"command": "true"}}}', "utf-8")
    market = tmp_path / "market" / ".claude-plugin"
    market.mkdir(parents=True)
    offer = {"name": "new", "owner": {"name": "Ada"}, "plugins": []}
    (market / "marketplace.json").write_text(json.dumps(offer), "utf-8")
    file = places.own / name
    newer: dict[str, Any] = json.loads(file.read_text("utf-8"))
    newer |= {"version": own_files.VERSION + 1, "unknown": [1, 2]}
    file.write_text(json.dumps(newer), "utf-8")
    done = clew(tmp_path, NOWHERE, *CHANGES[name], input="sk-other\n")
    assert done.returncode in (1, 2)
    assert str(file) in done.stderr
    assert "update clew" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(file.read_text("utf-8")) == newer
    # What this clew knows of it still counts.
    assert read_login(places.credentials) == "sk-example"
    found = clew(tmp_path, NOWHERE, "doctor", "--offline")
    assert str(file) in found.stdout


def test_a_file_is_private_has_a_version_and_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert (read_own(path), read_version(path)) == ({}, 0)
    write_own(path, {"a": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_own(path) == {"a": 1}
    assert read_version(path) == own_files.VERSION
    for text in ("", "[]", "{", '{"version": "two"}', "\ud800".encode("utf-8", "surrogatepass")):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert read_own(path) == {}
        write_own(path, {"b": 2})
        assert read_own(path) == {"b": 2}
