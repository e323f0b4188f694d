"""The version of the Messages API: asked for, learned from one refusal, remembered for the endpoint."""

import asyncio
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import anthropic._constants as sdk
import pytest

from clew.core.catalog.lookup import CATALOG
from clew.core.catalog.models import (
    EARLIER,
    LATER,
    USUAL,
    choose_other_version,
    is_later,
    is_version,
)
from clew.providers.anthropic import AnthropicProvider, provider_from_environment
from clew.providers.base import Failure, ModelRequest
from clew.providers.credentials import (
    FORGOTTEN_AFTER,
    MAX_ENDPOINTS,
    VersionMemory,
    open_memory,
    with_version,
)
from clew.providers.endpoint import Endpoint, read_endpoint
from clew.providers.request_body import build
from clew.system.config.environment import freeze
from clew.system.config.own_files import read_own
from clew.system.config.paths import find_places
from clew.testing.server import LoopbackServer

TODAY = date(2026, 11, 23)
GATEWAY = "https://gateway.example"
HELLO = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
OLD_ONLY = {"api_versions": (EARLIER,)}
REQUEST = ModelRequest(model="opus", messages=[{"role": "user", "content": "Hi"}])


def test_the_usual_version_is_the_official_sdks() -> None:
    assert sdk.ANTHROPIC_API_VERSION == USUAL
    assert (is_later(LATER), is_later(EARLIER), is_later("2027-01-01")) == (True, False, True)
    assert (choose_other_version(LATER), choose_other_version(EARLIER)) == (EARLIER, LATER)
    assert is_version("2023-06-01")
    assert not is_version("latest")


async def asked(provider: AnthropicProvider) -> list[Any]:
    attempt = provider.stream(REQUEST)
    received, events = 0, []
    async for event in attempt:
        assert attempt.bytes_received >= received
        received = attempt.bytes_received
        events.append(event)
    await attempt.aclose()
    return events


def versions(server: LoopbackServer) -> list[tuple[str | None, int | None]]:
    return [(r.header("anthropic-version"), r.status) for r in server.requests]


def test_one_refusal_teaches_the_version_and_every_later_request_speaks_it() -> None:
    async def main() -> None:
        async with LoopbackServer(HELLO, strict=True, **OLD_ONLY) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            learned: list[tuple[str, str]] = []
            provider.remember_version = lambda *told: learned.append(told)
            for _ in range(2):
                events = await asked(provider)
                assert events[-1] == {"type": "message_stop"}
            assert versions(server) == [(LATER, 400), (EARLIER, 200), (EARLIER, 200)]
            assert learned == [(server.url, EARLIER)]
            assert isinstance(await provider.count_tokens(REQUEST), int)
            await provider.aclose()

    asyncio.run(main())


def test_a_count_learns_it_too() -> None:
    async def main() -> None:
        async with LoopbackServer(HELLO, strict=True, **OLD_ONLY) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            assert isinstance(await provider.count_tokens(REQUEST), int)
            assert provider.endpoint.api_version == EARLIER
            await provider.aclose()

    asyncio.run(main())


def test_a_version_that_was_asked_for_is_not_replaced() -> None:
    async def main() -> None:
        async with LoopbackServer(HELLO, strict=True, **OLD_ONLY) as server:
            environ = {"ANTHROPIC_BASE_URL": server.url, "CLEW_API_VERSION": LATER}
            provider = provider_from_environment(environ)
            [failure] = await asked(provider)
            assert isinstance(failure, Failure)
            assert "is not a valid version" in failure.message
            assert isinstance(await provider.count_tokens(REQUEST), Failure)
            assert versions(server) == [(LATER, 400)] * 2
            await provider.aclose()

    asyncio.run(main())


def test_where_both_are_refused_nothing_is_learned() -> None:
    async def main() -> None:
        async with LoopbackServer(HELLO, strict=True, api_versions=("2031-01-01",)) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            [failure] = await asked(provider)
            assert isinstance(failure, Failure)
            assert failure.status == 400
            assert versions(server) == [(LATER, 400), (EARLIER, 400)]
            assert isinstance(await provider.count_tokens(REQUEST), Failure)
            assert provider.endpoint.api_version == USUAL
            await provider.aclose()

    asyncio.run(main())


def test_another_refusal_is_no_word_about_the_version() -> None:
    said = {"status": 400, "error": {"message": "tools.0: no"}}

    async def main() -> None:
        async with LoopbackServer({"scenario": 1, "answers": [said]}, strict=True) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            [failure] = await asked(provider)
            assert isinstance(failure, Failure)
            assert versions(server) == [(LATER, 400)]
            await provider.aclose()

    asyncio.run(main())


def test_variables_headers_and_settings_name_the_version(tmp_path: Path) -> None:
    memory = VersionMemory(tmp_path / "api-versions.json", today=TODAY)

    def found(environ: dict[str, str], settings: dict[str, Any] | None = None) -> Endpoint:
        return with_version(read_endpoint(freeze(environ)), settings or {}, memory)

    plain = found({})
    assert (plain.api_version, plain.pins_version) == (USUAL, False)
    of_variable = found({"CLEW_API_VERSION": EARLIER}, {"apiVersion": LATER})
    assert (of_variable.api_version, of_variable.pins_version) == (EARLIER, True)
    of_header = found({"ANTHROPIC_CUSTOM_HEADERS": f"Anthropic-Version: {EARLIER}"})
    assert (of_header.api_version, of_header.pins_version) == (EARLIER, True)
    of_settings = found({}, {"apiVersion": EARLIER})
    assert (of_settings.api_version, of_settings.pins_version) == (EARLIER, True)
    memory.learn("https://api.anthropic.com", EARLIER)
    learned = found({})
    assert (learned.api_version, learned.pins_version) == (EARLIER, False)
    for wrong in (found({"CLEW_API_VERSION": "latest"}), found({}, {"apiVersion": "latest"})):
        assert "must be a date such as 2026-10-21, got 'latest'" in wrong.hindrance


def test_what_was_learned_is_kept_small_and_forgotten_after_a_month(tmp_path: Path) -> None:
    path = tmp_path / "clew" / "api-versions.json"
    memory = VersionMemory(path, today=TODAY)
    assert memory.version_for(GATEWAY) is None
    memory.learn(GATEWAY, EARLIER)
    assert memory.version_for(GATEWAY) == EARLIER
    kept = {GATEWAY: {"version": EARLIER, "learned": "2026-11-23"}}
    assert read_own(path) == kept
    later = VersionMemory(path, today=TODAY + FORGOTTEN_AFTER + timedelta(days=1))
    assert later.version_for(GATEWAY) is None
    memory.learn(GATEWAY, USUAL)
    assert read_own(path) == {}
    for n in range(MAX_ENDPOINTS + 5):
        memory.learn(f"https://{n}.example", EARLIER)
    assert len(read_own(path)) == MAX_ENDPOINTS
    assert memory.version_for("https://4.example") is None
    assert memory.version_for("https://54.example") == EARLIER


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"https://gateway.example": "2023-06-01"}',
        '{"https://gateway.example": {"version": 7, "learned": "2026-11-23"}}',
        '{"https://gateway.example": {"version": "old", "learned": "2026-11-23"}}',
        '{"https://gateway.example": {"version": "2023-06-01", "learned": 7}}',
        '{"https://gateway.example": {"version": "2023-06-01", "learned": "soon"}}',
    ],
)
def test_a_file_that_says_nothing_readable_is_no_memory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "api-versions.json"
    path.write_text(text, "utf-8")
    assert VersionMemory(path, today=TODAY).version_for(GATEWAY) is None


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "clew").write_text("a file in the place of the folder", "utf-8")
    memory = VersionMemory(tmp_path / "clew" / "api-versions.json", today=TODAY)
    memory.learn(GATEWAY, EARLIER)
    assert memory.version_for(GATEWAY) is None
    places = find_places({"HOME": str(tmp_path)}, tmp_path)
    assert open_memory(places).version_for(GATEWAY) is None


def test_sampling_is_left_out_of_a_request_in_the_later_version() -> None:
    warm = ModelRequest(
        model="opus", messages=[], extra={"temperature": 1.0, "top_k": 5, "speed": "fast"}
    )
    model = CATALOG.entry("opus")
    later = build(warm, model, api_version=LATER)
    assert {"temperature", "top_k"} & set(later.body) == set()
    assert later.body["speed"] == "fast"
    assert later.adjusted == (
        "left out temperature, top_k, which API version 2026-10-21 does not support",
    )
    earlier = build(warm, model, api_version=EARLIER)
    assert (earlier.body["temperature"], earlier.adjusted) == (1.0, ())
