"""Takes out of an export what is nobody else's business: secrets, the person's folders, addresses. Pure.

Secrets are found by their shapes (config/mask.py) and the rest by what is known of the person; what no shape
and no name tells, a reader must still look for.
"""

import re
from typing import Any

from msgspec import Struct

from clew.config.mask import mask, mask_lines, mask_member

# Longer keys are no names of fields: file names, for one.
_LONGEST_NAME = 24
_ENCODED = re.compile(r"[A-Za-z0-9+/=_\s-]*+")
_ADDRESS = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+\b")


class Redaction(Struct, frozen=True, kw_only=True):
    """`folders` are replaced by what stands behind them; `names` by `[name]`. `only_secrets` leaves
    all that is none."""

    folders: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    only_secrets: bool = False

    def text(self, text: str) -> str:
        return self._rest(mask(text))

    def _rest(self, text: str) -> str:
        if self.only_secrets:
            return text
        for folder, instead in self.folders:
            text = text.replace(folder, instead)
        text = _ADDRESS.sub("[address]", text)
        for name in self.names:
            text = re.sub(rf"\b{re.escape(name)}\b", "[name]", text)
        return text

    def value(self, value: Any) -> Any:
        """A decoded JSON value with every text in it treated so; pictures and signatures go with all
        that says who, and stay as they are where only secrets do."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                return [self._rest(line) for line in mask_lines(value)]
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self._key(key): self._member(key, item) for key, item in value.items()}
        return value

    def _key(self, key: str) -> str:
        return self.text(key) if len(key) > _LONGEST_NAME else key

    def _member(self, key: str, item: Any) -> Any:
        if not isinstance(item, str):
            return self.value(item)
        if key in ("signature", "data") and len(item) > 200 and _ENCODED.fullmatch(item):
            return item if self.only_secrets else "[removed]"
        return self._rest(mask_member(key, item))


# Whatever leaves clew may come before others: what is secret in it is nobody's business.
SECRETS = Redaction(only_secrets=True)
