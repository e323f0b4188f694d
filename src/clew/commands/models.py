"""`clew models`: list available models, and update clew's table of models."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

from clew.agent.offers import ServiceOffer, list_offers
from clew.agent.services import open_service
from clew.commands.slash.pages import describe_abilities, describe_model
from clew.commands.styled import print_pieces
from clew.core.catalog.litellm import write_lines
from clew.core.catalog.models import Model, find_price
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.core.regex import lazy_pattern
from clew.permissions.session_rules import load_current_rules
from clew.providers.preferences import read_model_limits
from clew.system.clock import get_timestamp
from clew.system.command_groups import Group
from clew.system.config.environment import freeze
from clew.system.config.paths import find_places
from clew.system.files import replace
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import HttpRequest, TransportError

NamedModel: TypeAlias = tuple[str, Model]

MAX_BYTES = 64 << 20
WAIT_S = 60.0


async def find_offers() -> tuple[list[ServiceOffer], tuple[str, ...]]:
    """Return the models that each usable service offers, and problems in the settings."""
    current = load_current_rules(os.environ, Path.cwd())
    environment = freeze(current.environ)
    async with AsyncExitStack() as opened:
        launcher = Launcher()
        opened.push_async_callback(launcher.aclose)
        service = await open_service(
            current.environ,
            environment,
            current.settings,
            current.places,
            launcher,
            opened,
            model_limits=read_model_limits(current.layers),
        )
        offers = await list_offers(service, environment.text("ollama"))
    return offers, service.problems


# The most models of a service that are listed without `--all`.
MOST_SHOWN = 20
# The ID of a snapshot ends with a date.
DATED = lazy_pattern(r"[-@](?:\d{4}-\d\d-\d\d|\d{8})\Z")
# A version such as 5.6 or 4-1, but no date and no number of parameters (70b).
VERSION = lazy_pattern(r"(?<![\d.])(\d{1,2})(?:[.-](\d{1,2}))?(?![\d.]|b\b)")


# The makers whose models come first where a service offers those of many, and how many of each.
MAKERS = ("anthropic", "openai", "google", "deepseek", "qwen", "z-ai", "moonshotai", "x-ai",
          "mistralai", "meta-llama")  # fmt: skip
MOST_OF_A_MAKER = 3


def find_maker(name: str) -> str:
    """Return the maker in a name such as openrouter/qwen/qwen3-coder; empty if it has none."""
    parts = name.split("/")
    return parts[-2] if len(parts) > 2 else ""


def rank_model(name: str) -> tuple[int, str, int, int]:
    """Return a sort key: known makers first, then newer versions, according to the names."""
    maker = find_maker(name)
    place = MAKERS.index(maker) if maker in MAKERS else len(MAKERS)
    match = VERSION.search(name.rpartition("/")[2])
    version = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    return place, maker, -version[0], -version[1]


def put_newest_first(models: Sequence[NamedModel]) -> list[NamedModel]:
    """Return the models by maker and descending version; the first, the default, stays first."""
    return [*models[:1], *sorted(models[1:], key=lambda pair: rank_model(pair[0]))]


def select_current(models: Sequence[NamedModel]) -> list[NamedModel]:
    """Return the newest models, omitting those that will be retired and snapshots of others."""
    names = {name for name, _ in models}
    current: list[NamedModel] = []
    of_maker: Counter[str] = Counter()
    for name, model in models:
        maker = find_maker(name)
        if model.retired or DATED.sub("", name) in names - {name}:
            continue
        of_maker[maker] += 1
        if not maker or of_maker[maker] <= MOST_OF_A_MAKER:
            current.append((name, model))
    return current[:MOST_SHOWN] or list(models[:MOST_SHOWN])


def print_offers(offers: list[ServiceOffer], words: list[str], *, has_all: bool) -> None:
    if not offers:
        print_pieces("No service has a key, and no model server is running on this machine.")
        print_pieces(
            (
                "quiet",
                "Save a key with clew login SERVICE, or set the service's environment variable.",
            )
        )
        return
    for offer in offers:
        models = [pair for pair in offer.models if all(word in pair[0].lower() for word in words)]
        if not models:
            continue
        models = put_newest_first(models)
        shown = models if has_all or words else select_current(models)
        listed = "" if offer.is_listed else "  (no list from the service; models from clew's table)"
        print_pieces(("strong", offer.title), ("quiet", listed))
        width = max(len(name) for name, _ in shown)
        for name, model in shown:
            facts = [*describe_model(model), describe_abilities(model)]
            print_pieces(f"  {name:<{width}}  ", ("quiet", " · ".join(filter(None, facts))))
        if hidden := len(models) - len(shown):
            print_pieces(("quiet", f"  and {hidden} more, older or deprecated (--all lists them)"))
        if offer.unknown and not words:
            print_pieces(
                ("quiet", f"  and {format_count(offer.unknown, 'model')} not in clew's table")
            )


def as_json(name: str, model: Model) -> dict[str, object]:
    price = find_price(model.prices, get_timestamp())
    return {
        "name": name,
        "contextWindow": model.context_window,
        "maxOutput": model.max_output,
        "inputPrice": None if price is None else float(price.rates.input),
        "outputPrice": None if price is None else float(price.rates.output),
        "images": model.images,
        "pdfs": model.pdfs,
        "tools": model.tools,
        "retired": model.retired or None,
    }


def main(argv: list[str]) -> int:
    if argv[:1] == ["update"]:
        return update(argv[1:])
    parser = Group(
        prog="clew models",
        description="List the models of services with a key, and of servers on this machine, with prices per million "
        "tokens, context windows and capabilities. `clew models update FROM` replaces clew's table of prices and limits.",
    )
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="Show only models whose names contain all words"
    )
    parser.add_argument(
        "--all", action="store_true", help="List older, dated and deprecated models too"
    )
    parser.add_argument("--json", action="store_true", help="Print JSON")
    options = parser.parse_args(argv)
    offers, problems = asyncio.run(find_offers())
    words = [word.lower() for word in options.words]
    for problem in problems:
        sys.stderr.write(f"clew models: {problem}\n")
    if options.json:
        rows = [
            {"service": offer.service or "anthropic"} | as_json(name, model)
            for offer in offers
            for name, model in offer.models
            if all(word in name.lower() for word in words)
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        print_offers(offers, words, has_all=options.all)
    return 0


def update(argv: list[str]) -> int:
    parser = Group(
        prog="clew models update",
        description="Read newer prices and limits of models from litellm's file"
        " model_prices_and_context_window.json. The network is used only if you specify"
        " a URL.",
    )
    parser.add_argument("source", metavar="FROM", help="A file, or an https URL")
    options = parser.parse_args(argv)
    try:
        data = asyncio.run(read_source(options.source))
        models = json.loads(data)
        lines = write_lines(models) if isinstance(models, dict) else []
    except (OSError, TransportError, TimeoutError, ValueError, UserError) as error:
        sys.stderr.write(f"clew models update: {options.source}: {str(error) or 'no response'}\n")
        return 1
    if not lines:
        sys.stderr.write(
            f"clew models update: {options.source}: no models in litellm's format found\n"
        )
        return 1
    places = find_places(os.environ, Path.cwd())
    places.own.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace(places.known_models, "\n".join(lines) + "\n")
    sys.stdout.write(f"saved {format_count(len(lines), 'model')} in {places.known_models}\n")
    return 0


async def read_source(source: str) -> bytes:
    """Return the content of a file, or of an https URL."""
    if "://" not in source:
        return await asyncio.to_thread(Path(source).read_bytes)
    transport = HttpTransport(read_network(freeze(os.environ)))
    exchange = transport.exchange(HttpRequest(method="GET", url=source, headers=(), body=b""))
    try:
        async with asyncio.timeout(WAIT_S):
            head = await exchange.open()
            if head.status != 200:
                raise UserError(f"HTTP {head.status}")
            data = bytearray()
            while piece := await exchange.read():
                data += piece
                if len(data) > MAX_BYTES:
                    raise UserError(f"the response is larger than {MAX_BYTES:,} bytes")
            return bytes(data)
    finally:
        await exchange.close()
        await transport.aclose()
