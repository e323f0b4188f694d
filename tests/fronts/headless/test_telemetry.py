"""Telemetry: nothing without a switch, and with it metrics and events to the user's collector."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clew.core.json_object import Json
from clew.testing.server import serving
from clew.version import VERSION
from tests.fronts.headless.clew_process import clew
from tests.requirements import requirement

SECRET = "sk-ant-api03-" + "a1B2c3D4e5" * 8 + "AA"
CALLS: list[Any] = [
    {"content": [{"tool": "Bash", "input": {"command": f"echo {SECRET}; mkdir made"}}]},
    {"content": [{"tool": "Write", "input": {"file_path": "a.txt", "content": "one\ntwo\n"}}]},
    {"text": "Done."},
]


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP, as an OpenTelemetry collector does."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), CollectorHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.statuses = list(statuses)
        self.refused = 0
        self.got: list[tuple[str, dict[str, str], Any]] = []

    def metrics(self) -> dict[tuple[str, ...], float]:
        """All points that arrived, summed by name and the values of their attributes."""
        sums: dict[tuple[str, ...], float] = {}
        for path, _, body in self.got:
            if path != "/v1/metrics":
                continue
            for metric in body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
                for point in metric["sum"]["dataPoints"]:
                    about = attributes_of(point)
                    about.pop("session.id", None)
                    key = (metric["name"], *about.values())
                    amount = float(point.get("asInt", point.get("asDouble")))
                    sums[key] = sums.get(key, 0) + amount
        return sums

    def events(self) -> list[dict[str, Any]]:
        return [
            attributes_of(record)
            for path, _, body in self.got
            if path == "/v1/logs"
            for record in body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
        ]


class CollectorHandler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.server.refused += status != 200
        if status == 200:
            self.server.got.append((self.path, dict(self.headers.items()), body))
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


def attributes_of(row: Any) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in row["attributes"]}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with RunningCollector() as server:
        yield server


class RunningCollector:
    def __init__(self, *statuses: int) -> None:
        self._server = Collector(*statuses)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self._server

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def switched_on(url: str, **more: str) -> dict[str, str]:
    return {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20mine,X-Team=a",
        **more,
    }


def run(folder: Path, environ: dict[str, str], *args: str) -> "subprocess.CompletedProcess[str]":
    with serving({"scenario": 1, "answers": CALLS}, strict=True) as server:
        return clew(
            folder,
            server.url,
            *("-p", "make it", "--allowedTools", "Bash", "Write", *args),
            environ=environ,
        )


@requirement("R292")
def test_metrics_and_events_go_to_the_collector(tmp_path: Path, collector: Collector) -> None:
    done = run(tmp_path, switched_on(collector.url, OTEL_RESOURCE_ATTRIBUTES="team=a%20b"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
    sums = collector.metrics()
    assert sums["claude_code.session.count",] == 1
    assert sums["claude_code.lines_of_code.count", "added"] == 2
    (model,) = {key[2] for key in sums if key[0] == "claude_code.token.usage"}
    assert sums["claude_code.token.usage", "output", model] > 0
    assert sums["claude_code.cost.usage", model] > 0
    events = collector.events()
    names = [event["event.name"] for event in events]
    assert names[0] == "user_prompt"
    assert names.count("api_request") == 3
    assert [e["tool_name"] for e in events if e["event.name"] == "tool_result"] == ["Bash", "Write"]
    assert [int(event["event.sequence"]) for event in events] == [*range(1, len(events) + 1)]
    requests = [event for event in events if event["event.name"] == "api_request"]
    spent = sum(float(event["cost_usd"]) for event in requests)
    assert spent == pytest.approx(sums["claude_code.cost.usage", model])
    path, headers, body = collector.got[0]
    assert headers["Authorization"] == "Bearer mine"
    assert attributes_of(
        body["resourceMetrics" if "metrics" in path else "resourceLogs"][0]["resource"]
    ) == {
        "service.name": "clew",
        "service.version": VERSION,
        "team": "a b",
    }
    # Neither the prompt nor what tools were called with, and no secret.
    sent = json.dumps([body for _, _, body in collector.got])
    for private in ("make it", "mkdir made", SECRET):
        assert private not in sent


def test_prompts_and_tool_details_are_sent_on_request_without_secrets(
    tmp_path: Path, collector: Collector
) -> None:
    run(
        tmp_path,
        switched_on(collector.url, OTEL_LOG_USER_PROMPTS="1", OTEL_LOG_TOOL_DETAILS="1"),
    )
    sent = json.dumps(collector.events())
    assert "make it" in sent
    assert "mkdir made" in sent
    assert SECRET not in sent


def test_what_the_collector_does_not_take_is_sent_again(tmp_path: Path) -> None:
    command = "sleep 0.1; mkdir made"
    with RunningCollector() as collector:

        def answer(body: Json) -> Json:
            # Nothing is taken until the last round.
            collector.statuses = [503] * 99 if len(body["messages"]) < 7 else []
            call = {"tool": "Bash", "input": {"command": f"{command}{len(body['messages'])}"}}
            return {"content": [call]} if collector.statuses else CALLS[2]

        with serving(answer, strict=True) as server:
            done = clew(
                tmp_path,
                server.url,
                *("-p", "make it", "--allowedTools", "Bash"),
                environ=switched_on(
                    collector.url, OTEL_LOGS_EXPORT_INTERVAL="50", OTEL_METRIC_EXPORT_INTERVAL="50"
                ),
            )
    assert (done.returncode, done.stderr) == (0, "")
    assert collector.metrics()["claude_code.session.count",] == 1
    names = [event["event.name"] for event in collector.events()]
    assert collector.refused >= 2
    assert names.count("api_request") == 4
    assert names.count("user_prompt") == 1


def test_a_collector_that_is_not_there_is_named_at_the_end(tmp_path: Path) -> None:
    done = run(tmp_path, switched_on("http://user:word@127.0.0.1:9"))
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.startswith("telemetry: cannot send to http://127.0.0.1:9/v1/")
    assert "word" not in done.stderr


def test_what_is_not_supported_is_said(tmp_path: Path, collector: Collector) -> None:
    environ = switched_on(
        collector.url, OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_LOGS_EXPORTER="console"
    )
    done = run(tmp_path, environ)
    assert "telemetry: no metrics are sent, because gRPC is not supported" in done.stderr
    assert "the exporter console is not supported" in done.stderr
    assert not collector.got


def test_a_command_may_print_the_headers(tmp_path: Path, collector: Collector) -> None:
    settings = {"otelHeadersHelper": 'echo \'{"X-Token": "fresh"}\''}
    run(tmp_path, switched_on(collector.url), "--settings", json.dumps(settings))
    assert {headers["X-Token"] for _, headers, _ in collector.got} == {"fresh"}


@pytest.mark.parametrize(
    "environ",
    [
        {"CLAUDE_CODE_ENABLE_TELEMETRY": ""},
        {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": ""},
        {"DISABLE_TELEMETRY": "1"},
    ],
)
def test_nothing_is_sent_without_the_switch(
    tmp_path: Path, collector: Collector, environ: dict[str, str]
) -> None:
    done = run(tmp_path, switched_on(collector.url) | environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert not collector.got


def test_doctor_says_where_telemetry_goes(tmp_path: Path, collector: Collector) -> None:
    assert "telemetry: none\n" in clew(tmp_path, "", "doctor").stdout
    done = clew(tmp_path, "", "doctor", environ=switched_on(collector.url))
    assert f"telemetry: metrics to {collector.url}/v1/metrics, logs to " in done.stdout


# Parses what was sent by the official types, and fails for a field that they don't know.
JUDGE = """
import json, sys
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
for path, body in json.load(sys.stdin):
    kind = ExportMetricsServiceRequest if path == "/v1/metrics" else ExportLogsServiceRequest
    print(path, ParseDict(body, kind()).ByteSize() > 500)
"""


@pytest.mark.e2e
def test_the_official_types_read_what_is_sent(tmp_path: Path, collector: Collector) -> None:
    run(tmp_path, switched_on(collector.url, OTEL_LOG_TOOL_DETAILS="1"))
    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "judge" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "judge"], check=True)
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, "opentelemetry-proto==1.45.2"],
        check=True,
    )
    judged = subprocess.run(
        [python, "-c", JUDGE],
        input=json.dumps([(path, body) for path, _, body in collector.got]),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (judged.stdout, judged.stderr) == ("/v1/metrics True\n/v1/logs True\n", "")


# Python's own report of every address that a process connects to or looks up.
WATCHER = """
import os, sys
def note(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        address = args[1] if event in ("socket.connect", "socket.sendto") else args[:2]
        if not isinstance(address, (str, bytes)):
            descriptor = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, f"{address[0]}:{address[1]}\\n".encode())
            os.close(descriptor)
sys.addaudithook(note)
"""
DRIVER = """
import os, subprocess, sys
from clew.testing.server import serving
answers = [{"content": [{"tool": "Bash", "input": {"command": "echo hi"}}]}, {"text": "Done."}]
with serving({"scenario": 1, "answers": answers}) as server:
    environ = os.environ | {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "x"}
    done = subprocess.run([sys.executable, "-m", "clew", "-p", "hi"], env=environ)
    print(server.url.removeprefix("http://"))
    sys.exit(done.returncode)
"""


@requirement("R292")
def test_in_an_empty_network_only_the_model_is_asked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "sitecustomize.py").write_text(WATCHER, "utf-8")
    watched = tmp_path / "watched"
    done = subprocess.run(
        [
            *("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"'),
            *("sh", sys.executable, "-c", DRIVER),
        ],
        cwd=home,
        env={
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3] / 'src'}",
            "WATCHED": str(watched),
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer, address = done.stdout.splitlines()
    assert answer == "Done."
    assert set(watched.read_text("utf-8").splitlines()) == {address}
