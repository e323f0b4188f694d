"""A web site on loopback: pages by path, and what was asked for."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# status, headers, body
Answer = tuple[int, Mapping[str, str], bytes]


class Site:
    def __init__(self, pages: Mapping[str, Answer]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []
        self.port = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def site(pages: Mapping[str, Answer]) -> Iterator[Site]:
    here = Site(pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here.asked.append(self.path)
            status, headers, body = here.pages.get(self.path, (404, {}, b"nothing here"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
