"""Request lists of models from services, and properties of models from local servers.

All requests are free and have a short time limit. Anything that a service does not state stays
unknown. Must never send a key to an address other than the endpoint's.
"""

import asyncio
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.models import Model, make_unknown_model
from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.stream.events import StreamFault
from clew.core.stream.json_pieces import parse_object
from clew.providers.endpoint import Endpoint, request_headers
from clew.system.transport.seam import HttpRequest, Transport, TransportError

WAIT_S = 5.0
LOCAL_WAIT_S = 2.0
MAX_BYTES = 8 << 20
COMPLETIONS = "/chat/completions"
# The fields in lists of models that contain the context window.
WINDOWS = (
    "context_length", "max_model_len", "context_window", "max_context_length",
    "loaded_context_length", "inputTokenLimit",
)  # fmt: skip


class ListedModel(Struct, frozen=True, kw_only=True):
    """A model that a service offers, by the service's own ID."""

    id: str
    window: int | None = None


def models_url(endpoint: Endpoint) -> str:
    """Return the URL of a service's list of models."""
    if endpoint.dialect == "gemini":
        return endpoint.url("/v1beta/models") + "?pageSize=1000"
    base = endpoint.base_url.rstrip("/")
    if base.endswith(COMPLETIONS):
        return base.removesuffix(COMPLETIONS) + "/models"
    return endpoint.url("/v1/models")


async def ask_json(
    transport: Transport,
    url: str,
    *,
    endpoint: Endpoint,
    body: bytes | None = None,
    wait_s: float = WAIT_S,
) -> Json | None:
    """Return the JSON object at a URL, or None if the response is anything else."""
    request = HttpRequest(
        method="GET" if body is None else "POST",
        url=url,
        headers=request_headers(endpoint, betas=(), stream=False),
        body=body or b"",
    )
    exchange = transport.exchange(request)
    try:
        async with asyncio.timeout(wait_s):
            head = await exchange.open()
            data = b""
            while len(data) < MAX_BYTES and (piece := await exchange.read()):
                data += piece
    except (TransportError, TimeoutError):
        return None
    finally:
        await exchange.close()
    value = parse_object(data) if head.status == 200 else None
    return None if isinstance(value, StreamFault) else value


async def list_offered(endpoint: Endpoint, transport: Transport) -> list[ListedModel] | None:
    """Return the models that a service lists, or None if it has no list."""
    value = await ask_json(transport, models_url(endpoint), endpoint=endpoint)
    return None if value is None else read_list(value)


def read_list(answer: Json) -> list[ListedModel]:
    """Return the models in a service's list, in any of the known formats."""
    listed = []
    for item in [*list_of(answer.get("data")), *list_of(answer.get("models"))]:
        item = object_of(item)
        methods = item.get("supportedGenerationMethods")
        if isinstance(methods, list) and "generateContent" not in methods:
            continue
        name = text_of(item.get("id")) or text_of(item.get("name")).removeprefix("models/")
        windows = (_count(item.get(member)) for member in WINDOWS)
        if name and name.isprintable():
            listed.append(ListedModel(id=name, window=next(filter(None, windows), None)))
    return list({model.id: model for model in listed}.values())


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


async def ask_about(service: str, model: str, endpoint: Endpoint, transport: Transport) -> Model:
    """Return what a local server reports about one of its models."""

    async def ask(path: str, body: bytes | None = None) -> Json:
        url = endpoint.base_url.rstrip("/").removesuffix("/v1") + path
        value = await ask_json(transport, url, endpoint=endpoint, body=body, wait_s=LOCAL_WAIT_S)
        return value or {}

    entry = make_unknown_model(model)
    match service:
        case "ollama":
            body = b'{"model":%s}' % _quote(model)
            properties, running = await asyncio.gather(ask("/api/show", body), ask("/api/ps"))
            return read_ollama(entry, properties, running)
        case "llamacpp":
            return read_llamacpp(entry, await ask("/props"))
        case "lmstudio":
            newer, older = await asyncio.gather(ask("/api/v1/models"), ask("/api/v0/models"))
            return read_lmstudio(entry, newer, older)
        case _:
            listed = read_list(await ask("/v1/models"))
            window = next((item.window for item in listed if item.id == model), None)
            return replace(entry, context_window=window)


def _quote(text: str) -> bytes:
    import msgspec

    return msgspec.json.encode(text)


def read_ollama(entry: Model, shown: Json, running: Json) -> Model:
    """Read Ollama's `/api/show` and `/api/ps`.

    The window is that of the running model, or the one in the model's file. The model's maximum is
    ignored, because the server may use a smaller window.
    """
    window = next(
        (
            _count(object_of(item).get("context_length"))
            for item in list_of(running.get("models"))
            if entry.id in (object_of(item).get("name"), object_of(item).get("model"))
        ),
        None,
    )
    for line in text_of(shown.get("parameters")).split("\n"):
        name, _, value = line.strip().partition(" ")
        if window is None and name == "num_ctx" and value.strip().isdecimal():
            window = int(value)
    abilities = shown.get("capabilities")
    if not isinstance(abilities, list):
        return replace(entry, context_window=window)
    return replace(
        entry,
        context_window=window,
        tools="tools" in abilities,
        images="vision" in abilities,
        pdfs=False,
        thinking=None if "thinking" in abilities else (),
    )


def read_llamacpp(entry: Model, props: Json) -> Model:
    """Read the `/props` of llama.cpp: the window of one slot, and the modalities."""
    window = _count(object_of(props.get("default_generation_settings")).get("n_ctx"))
    modalities = props.get("modalities")
    template = props.get("chat_template")
    abilities = object_of(props.get("chat_template_caps"))
    tools = abilities.get("supports_tools")
    if type(tools) is not bool:
        tools = "tool" in template if isinstance(template, str) and template else None
    return replace(
        entry,
        context_window=window or _count(props.get("n_ctx")),
        images=bool(object_of(modalities).get("vision")) if modalities is not None else None,
        pdfs=False if modalities is not None else None,
        tools=tools,
    )


def read_lmstudio(entry: Model, listed: Json, older: Json) -> Model:
    """Read LM Studio's own list of models, or the list of its first API.

    If a model was not trained for tool use, it stays unknown whether the model supports tools,
    because the server describes tools to such models in text.
    """
    for item in map(object_of, list_of(listed.get("models"))):
        if item.get("key") == entry.id:
            loaded = map(object_of, list_of(item.get("loaded_instances")))
            windows = (
                _count(object_of(each.get("config")).get("context_length")) for each in loaded
            )
            can = object_of(item.get("capabilities"))
            return replace(
                entry,
                context_window=next(filter(None, windows), None),
                images=can.get("vision") is True,
                pdfs=False,
                tools=True if can.get("trained_for_tool_use") is True else None,
            )
    for item in map(object_of, list_of(older.get("data"))):
        if item.get("id") == entry.id:
            abilities = item.get("capabilities")
            return replace(
                entry,
                context_window=_count(item.get("loaded_context_length")),
                images=item.get("type") == "vlm",
                pdfs=False,
                tools="tool_use" in abilities if isinstance(abilities, list) else None,
            )
    return entry
