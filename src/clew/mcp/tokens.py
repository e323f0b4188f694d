"""Where tokens lie between sessions: the system's keyring, or a file that only its owner can read.

Owns `<config home>/clew/mcp-tokens.json`, bits 0600; one that others could read is not used. A token is
never part of a message, an error or a log. Kept under the address of the server it is for.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from clew.config.keys import find_keyring
from clew.config.paths import Places
from clew.config.write import replace
from clew.mcp.oauth_words import Tokens

Json = dict[str, Any]

SERVICE = "clew-mcp"


class TokenStore:
    """`keyring` is the module of that name, or None: then there is the file alone."""

    def __init__(self, places: Places, keyring: Any = None) -> None:
        self._path: Path = places.own / "mcp-tokens.json"
        self._keyring = keyring

    @classmethod
    def usual(cls, places: Places) -> "TokenStore":
        return cls(places, find_keyring())

    def load(self, url: str) -> Tokens | None:
        kept = self._asked(url)
        if kept is None:
            kept = self._read().get(url)
        try:
            return msgspec.convert(kept, Tokens)
        except msgspec.ValidationError:
            return None

    def save(self, url: str, tokens: Tokens) -> str:
        """Keeps them; returns where, for people."""
        said = msgspec.to_builtins(tokens)
        if self._keyring is not None:
            try:
                self._keyring.set_password(SERVICE, url, json.dumps(said))
            except self._keyring.errors.KeyringError:
                pass
            else:
                return "the keyring"
        self._write(self._read() | {url: said})
        return str(self._path)

    def forget(self, url: str) -> bool:
        """Whether there was something to forget."""
        known = self.load(url) is not None
        if self._keyring is not None and self._asked(url) is not None:
            self._keyring.delete_password(SERVICE, url)
        everything = self._read()
        if everything.pop(url, None) is not None:
            self._write(everything)
        return known

    def _asked(self, url: str) -> Any:
        """What the keyring holds; None also where there is nothing behind the package."""
        if self._keyring is None:
            return None
        try:
            kept = self._keyring.get_password(SERVICE, url)
            return None if kept is None else json.loads(kept)
        except (self._keyring.errors.KeyringError, ValueError):
            return None

    def _read(self) -> Json:
        try:
            if self._path.stat().st_mode & 0o077:
                return {}
            data = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _write(self, everything: Json) -> None:
        replace(self._path, json.dumps(everything, indent=2) + "\n", mode=0o600)
