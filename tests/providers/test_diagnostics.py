"""Cache diagnostics: which endpoints are asked, how, and which are not asked again."""

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from clew.core.catalog.lookup import CATALOG
from clew.providers.anthropic import AnthropicProvider, provider_from_environment
from clew.providers.base import Failure, ModelRequest
from clew.providers.credentials import VersionMemory, with_diagnostics
from clew.providers.endpoint import read_endpoint
from clew.providers.failure_kinds import refuses_diagnostics
from clew.providers.request_body import build
from clew.system.config.environment import freeze
from clew.testing.server import LoopbackServer

Json = dict[str, Any]
TODAY = date(2026, 11, 23)
GATEWAY = "https://gateway.example"
REQUEST = ModelRequest(
    model="opus", messages=[{"role": "user", "content": "Hi"}], compares_with="msg_1"
)
REFUSAL = {
    "type": "invalid_request_error",
    "message": "diagnostics: Extra inputs are not permitted",
}


def memory_in(folder: Path) -> VersionMemory:
    return VersionMemory(folder / "clew" / "api-versions.json", today=TODAY)


@pytest.mark.parametrize(
    ("compares_with", "asked"),
    [
        ("msg_1", {"previous_message_id": "msg_1"}),
        ("", {"previous_message_id": None}),
        (None, None),
    ],
)
def test_a_request_names_the_message_before(compares_with: str | None, asked: Json | None) -> None:
    request = ModelRequest(model="opus", messages=[], compares_with=compares_with)
    model = CATALOG.entry("opus")
    assert build(request, model, diagnoses=True).body.get("diagnostics") == asked
    assert "diagnostics" not in build(request, model).body


@pytest.mark.parametrize(
    ("environ", "settings", "asks"),
    [
        ({}, {}, True),
        ({}, {"cacheDiagnostics": False}, False),
        ({"ANTHROPIC_BASE_URL": GATEWAY}, {}, False),
        ({"ANTHROPIC_BASE_URL": GATEWAY}, {"cacheDiagnostics": True}, True),
        ({"CLEW_DIALECT": "chat", "CLEW_BASE_URL": GATEWAY}, {"cacheDiagnostics": True}, False),
    ],
)
def test_the_vendors_own_service_is_asked_and_others_where_the_settings_say_so(
    tmp_path: Path, environ: dict[str, str], settings: Json, asks: bool
) -> None:
    endpoint = read_endpoint(freeze(environ))
    assert with_diagnostics(endpoint, settings, memory_in(tmp_path)).diagnoses is asks


def test_a_refusal_is_remembered_beside_the_version(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    endpoint = read_endpoint(freeze({"ANTHROPIC_BASE_URL": GATEWAY}))
    asking = {"cacheDiagnostics": True}
    memory.learn_refusal(GATEWAY)
    memory.learn(GATEWAY, "2023-06-01")
    assert not with_diagnostics(endpoint, asking, memory).diagnoses
    assert memory.version_for(GATEWAY) == "2023-06-01"
    memory.learn(GATEWAY, "2026-10-21")
    assert memory.version_for(GATEWAY) is None
    assert memory.refuses_diagnostics(GATEWAY)
    later = VersionMemory(tmp_path / "clew" / "api-versions.json", today=date(2027, 1, 1))
    assert with_diagnostics(endpoint, asking, later).diagnoses


def test_only_a_400_that_names_the_member_refuses_it() -> None:
    for message, status, is_one in (
        ("diagnostics: Extra inputs are not permitted", 400, True),
        ("Unknown parameter: 'diagnostics'.", 422, True),
        ("diagnostics are down", 500, False),
        ("messages: at least one message is required", 400, False),
    ):
        failure = Failure(kind="status", message=message, status=status)
        assert refuses_diagnostics(failure) is is_one


async def events_of(provider: AnthropicProvider) -> list[Json | Failure]:
    attempt = provider.stream(REQUEST)
    events = [event async for event in attempt]
    await attempt.aclose()
    return events


def asking(server: LoopbackServer) -> AnthropicProvider:
    provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
    memory = VersionMemory(Path("/nowhere/at/all.json"), today=TODAY)
    provider.endpoint = with_diagnostics(provider.endpoint, {"cacheDiagnostics": True}, memory)
    return provider


def sent(server: LoopbackServer) -> list[tuple[int | None, bool]]:
    return [(request.status, "diagnostics" in request.body) for request in server.requests]


def test_one_refusal_teaches_it_and_the_same_request_is_sent_without() -> None:
    def gateway(body: Json) -> Json:
        return {"status": 400, "error": REFUSAL} if "diagnostics" in body else {"text": "Hello."}

    async def main() -> None:
        async with LoopbackServer(gateway, api_versions=("2023-06-01",)) as server:
            provider = asking(server)
            learned: list[str] = []
            provider.remember_refusal = learned.append
            for _ in range(2):
                assert (await events_of(provider))[-1] == {"type": "message_stop"}
            assert sent(server) == [(400, True), (400, True), (200, False), (200, False)]
            assert learned == [server.url]
            assert provider.endpoint.api_version == "2023-06-01"
            await provider.aclose()

    asyncio.run(main())


def test_where_the_request_is_refused_without_it_as_well_nothing_is_learned() -> None:
    async def main() -> None:
        refused = {"status": 400, "error": REFUSAL}
        async with LoopbackServer(lambda _: refused) as server:
            provider = asking(server)
            [failure] = await events_of(provider)
            assert isinstance(failure, Failure)
            assert sent(server) == [(400, True), (400, False)]
            assert provider.endpoint.diagnoses
            await provider.aclose()

    asyncio.run(main())
