"""Models of services other than Anthropic, looked up in a generated table of lines.

Each line describes one model: its name, limits, prices in US dollars per million tokens, and
abilities, separated by tabs. `scripts/catalogue.py` writes the lines, and `clew models update`
reads newer ones. A fact that the sources disagree on, or do not state, is unknown.
"""

from decimal import Decimal, InvalidOperation

from clew.core.catalog.known_models import LINES
from clew.core.catalog.models import EffortLevel, Model, Price, Rates, strip_version

COLUMNS = (
    "name", "window", "output", "input_price", "output_price", "read_price", "write_price",
    "long_above", "long_input", "long_output", "long_read", "abilities", "effort", "retired",
)  # fmt: skip
# The letters of abilities. A capital letter means that the model has the ability, a small one that
# it lacks it.
IMAGES, PDFS, TOOLS, REASONS = "ipta"
EFFORTS: dict[str, EffortLevel] = {
    "l": "low", "m": "medium", "h": "high", "x": "xhigh", "M": "max",
}  # fmt: skip


class KnownModels:
    """A table of models. Lines of `updates` replace clew's own."""

    def __init__(self, lines: str, updates: str = "") -> None:
        self._texts = [f"\n{text.strip()}\n" for text in (updates, lines) if text.strip()]

    def line(self, name: str) -> str | None:
        """Return the line of the model with this full name, or None if there is none."""
        for text in self._texts:
            at = text.find(f"\n{name}\t")
            if at >= 0:
                return text[at + 1 : text.index("\n", at + 1)]
        return None

    def names(self, service: str) -> list[str]:
        """Return the names of a service's models, without the service's prefix."""
        names: dict[str, None] = {}
        for text in self._texts:
            for line in text.split("\n"):
                if line.startswith(f"{service}/"):
                    names[line.partition("\t")[0].partition("/")[2]] = None
        return sorted(names)

    def find(self, service: str, name: str) -> Model | None:
        line = self.line(f"{service}/{name}") or self.line(f"{service}/{strip_version(name)}")
        return None if line is None else read_line(line)


SHIPPED = KnownModels(LINES)


def with_updates(updates: str) -> KnownModels:
    """Return clew's table of models, with `updates` applied if there are any."""
    return KnownModels(LINES, updates) if updates.strip() else SHIPPED


def read_line(line: str) -> Model | None:
    """Return the entry that a line describes, or None if the line is invalid."""
    fields = dict(zip(COLUMNS, line.split("\t"), strict=False))
    name = fields["name"].partition("/")[2]
    try:
        price = _price(fields)
        window, output = (_whole(fields.get(column, "")) for column in ("window", "output"))
    except (InvalidOperation, ValueError):
        return None
    abilities = fields.get("abilities", "")
    efforts = tuple(EFFORTS[letter] for letter in fields.get("effort", "") if letter in EFFORTS)
    return Model(
        id=name,
        name=name,
        context_window=window,
        max_output=output,
        default_output=None if output is None else min(output, 32_000),
        thinking=() if REASONS in abilities else None,
        effort=efforts or None,
        images=_has(abilities, IMAGES),
        pdfs=_has(abilities, PDFS),
        tools=_has(abilities, TOOLS),
        prices=() if price is None else (price,),
        retired=fields.get("retired", ""),
    )


def _has(abilities: str, letter: str) -> bool | None:
    return True if letter.upper() in abilities else False if letter in abilities else None


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _price(fields: dict[str, str]) -> Price | None:
    rates = _rates(fields, "input_price", "output_price", "read_price")
    if rates is None:
        return None
    above = _whole(fields.get("long_above", ""))
    return Price(
        since="",
        rates=rates,
        long_above=above,
        long=None if above is None else _rates(fields, "long_input", "long_output", "long_read"),
    )


def _rates(fields: dict[str, str], given: str, output: str, read: str) -> Rates | None:
    if not fields.get(given) or not fields.get(output):
        return None
    price = Decimal(fields[given])
    # A service without a cache price bills cached tokens like other input.
    write = Decimal(fields.get("write_price") or price) if given == "input_price" else price
    return Rates(
        input=price,
        output=Decimal(fields[output]),
        cache_write_5m=write,
        cache_write_1h=write,
        cache_read=Decimal(fields.get(read) or price),
    )
