"""A web front: prompts and approvals by POST, messages as server-sent events, and history.

A page that connects later gets the history in the same form: stored messages have the same types.
"""

import asyncio
import json
import socket
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import clew


async def model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    """Make a folder, and say so."""
    if request.messages[-1]["content"][0]["type"] == "tool_result":
        yield "The folder is there."
    else:
        yield {"type": "tool_use", "name": "Bash", "input": {"command": "mkdir site"}}


def show(message: clew.Message) -> list[dict[str, Any]]:
    """Return what the page shows of a message, live or stored."""
    items = []
    if isinstance(message, clew.Result):
        items.append({"kind": "end", "text": message.subtype})
    for block in message.content if isinstance(message, clew.Assistant | clew.User) else ():
        match block:
            case clew.Text():
                items.append({"kind": "text", "text": block.text})
            case clew.ToolUse():
                items.append({"kind": "call", "text": f"{block.name} {block.input}"})
            case clew.ToolResult():
                items.append({"kind": "result", "text": str(block.content)})
    return items


class Chat:
    """One session, and the pages that watch it."""

    client: clew.ClewClient

    def __init__(self) -> None:
        self.pages: set[asyncio.Queue[dict[str, Any]]] = set()
        self.open: dict[str, asyncio.Future[bool]] = {}

    def tell(self, item: dict[str, Any]) -> None:
        for page in self.pages:
            page.put_nowait(item)

    async def permit(self, call: clew.Call) -> clew.Permit | clew.Deny:
        decision = self.open[call.tool_use_id] = asyncio.get_running_loop().create_future()
        self.tell({"kind": "question", "text": call.title, "id": call.tool_use_id})
        return clew.Permit() if await decision else clew.Deny(words="The user said no.")

    async def run(self, prompt: str) -> None:
        async with self.client.turn(prompt) as turn:
            async for message in turn:
                for item in show(message):
                    self.tell(item)

    async def take_prompt(self, request: Request) -> Response:
        return JSONResponse({}, background=BackgroundTask(self.run, **await request.json()))

    async def decide(self, request: Request) -> Response:
        answer = await request.json()
        self.open.pop(answer["id"]).set_result(answer["permit"])
        return Response()

    async def send_history(self, _: Request) -> Response:
        options = self.client.options
        name = self.client.session_id or ""
        session = clew.Session.open(name, cwd=options.cwd, home=options.home)
        return JSONResponse([item for message in session.messages() for item in show(message)])

    async def send_events(self, _: Request) -> Response:
        page: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.pages.add(page)

        async def send() -> AsyncIterator[str]:
            try:
                yield ": connected\n\n"
                while True:
                    yield f"data: {json.dumps(await page.get())}\n\n"
            finally:
                self.pages.discard(page)

        return StreamingResponse(send(), media_type="text/event-stream")


def use_page(url: str) -> None:
    """Do what the script of a page does."""

    def post(path: str, **data: Any) -> None:
        urllib.request.urlopen(f"{url}/{path}", json.dumps(data).encode()).close()

    with urllib.request.urlopen(f"{url}/events") as events:
        post("prompt", prompt="Make a folder for the site")
        for line in filter(lambda line: line.startswith(b"data: "), events):
            item = json.loads(line.removeprefix(b"data: "))
            print(item["kind"], item["text"])
            if item["kind"] == "question":
                post("decision", id=item["id"], permit=True)
            if item["kind"] == "end":
                break
    with urllib.request.urlopen(f"{url}/history") as history:
        print([item["kind"] for item in json.load(history)])


async def main() -> None:
    chat = Chat()
    routes = [
        Route("/prompt", chat.take_prompt, methods=["POST"]),
        Route("/decision", chat.decide, methods=["POST"]),
        Route("/events", chat.send_events),
        Route("/history", chat.send_history),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as own:
        options = clew.ClewOptions(
            cwd=folder, home=f"{folder}/home", setting_sources=[],
            can_use_tool=chat.permit, provider=model, model="example",
        )  # fmt: skip
        async with clew.ClewClient(options) as chat.client:
            serving = asyncio.create_task(server.serve(sockets=[own]))
            await asyncio.to_thread(use_page, f"http://127.0.0.1:{own.getsockname()[1]}")
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main())

# -> call Bash {'command': 'mkdir site'}
# -> question Bash: mkdir site
# -> result (no output)
# -> text The folder is there.
# -> end success
# -> ['text', 'call', 'result', 'text']
