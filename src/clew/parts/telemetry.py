"""Telemetry by OpenTelemetry (OTLP over HTTP), off unless the user turns it on.

The variables, metrics and events are those that dashboards for Claude Code expect. The text of
prompts and the input of tools are left out unless a variable asks for them; secrets are always
masked.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from logging import getLogger
from typing import TypeAlias

from msgspec import Struct

from clew.agent.compaction.retelling import prompt_text
from clew.agent.deps import Emit
from clew.agent.events import (
    EngineEvent,
    FromAgent,
    Recorded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from clew.core.json_object import Json
from clew.core.ledger.ledger import Charge, Spend
from clew.core.ledger.state import Change, SessionState
from clew.core.messages.errors import describe_error
from clew.core.messages.messages import UserMessage
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.providers.answer_events import FellBack, Retrying
from clew.providers.credentials import run_helper
from clew.system.clock import get_timestamp
from clew.system.config.environment import Environment
from clew.system.config.mask import mask
from clew.system.config.settings import read_text
from clew.system.transport.seam import HttpRequest, TransportError
from clew.version import VERSION

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value]

PREFIX = "claude_code."
METRICS, LOGS = "metrics", "logs"
USUAL_ENDPOINT = "http://localhost:4318"
# The maximum number of records that wait to be sent. Beyond it, the oldest are dropped and counted.
MOST_RECORDS = 2048
SEND_S, LAST_S = 10.0, 3.0
MAX_VALUE_CHARS = 4096
DELTA, CUMULATIVE = 1, 2


class TelemetryTarget(Struct, frozen=True, kw_only=True):
    """The destination of one signal, and the interval at which it is sent."""

    url: str
    headers: tuple[tuple[str, str], ...]
    interval_s: float

    @property
    def shown(self) -> str:
        """The address for display, without user name, password and query."""
        scheme, separator, rest = self.url.partition("?")[0].partition("://")
        authority, slash, path = rest.partition("/")
        return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


class TelemetryPlan(Struct, frozen=True, kw_only=True):
    """The telemetry that the environment requests. `problems` describe what clew can't send."""

    targets: Mapping[str, TelemetryTarget] = {}
    resource: Attributes = {}
    logs_prompts: bool = False
    logs_tools: bool = False
    has_session_id: bool = True
    is_cumulative: bool = False
    problems: tuple[str, ...] = ()


def plan_telemetry(environ: Mapping[str, str], environment: Environment) -> TelemetryPlan:
    """Read OpenTelemetry's and Claude Code's variables. Nothing is sent unless they enable it."""
    if environment.switch("telemetry_disabled") or not environment.switch("telemetry"):
        return TelemetryPlan()
    targets: dict[str, TelemetryTarget] = {}
    problems: list[str] = []
    exporters = {
        METRICS: environ.get("OTEL_METRICS_EXPORTER", ""),
        LOGS: environ.get("OTEL_LOGS_EXPORTER", ""),
    }
    for signal, usual_ms in ((METRICS, 60_000.0), (LOGS, 5_000.0)):
        wanted = set(filter(None, exporters[signal].split(",")))
        problems += [
            f"telemetry: the exporter {name} is not supported; use otlp"
            for name in sorted(wanted - {"otlp", "none"})
        ]
        if "otlp" not in wanted:
            continue
        if own(environ, "PROTOCOL", signal) == "grpc":
            problems.append(
                f"telemetry: no {signal} are sent, because gRPC is not supported; set "
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/json, and OTEL_EXPORTER_OTLP_ENDPOINT to the "
                "collector's HTTP address"
            )
            continue
        base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or USUAL_ENDPOINT
        specific = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        name = "OTEL_METRIC_EXPORT_INTERVAL" if signal == METRICS else "OTEL_LOGS_EXPORT_INTERVAL"
        targets[signal] = TelemetryTarget(
            url=specific or f"{base.rstrip('/')}/v1/{signal}",
            headers=tuple(read_pairs(own(environ, "HEADERS", signal)).items()),
            interval_s=max(read_interval(environ.get(name, ""), usual_ms), 100.0) / 1000,
        )
    preference = environ.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta").lower()
    return TelemetryPlan(
        targets=targets,
        resource={
            "service.name": environ.get("OTEL_SERVICE_NAME") or "clew",
            "service.version": VERSION,
            **read_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")),
        },
        logs_prompts=is_yes(environ.get("OTEL_LOG_USER_PROMPTS")),
        logs_tools=is_yes(environ.get("OTEL_LOG_TOOL_DETAILS")),
        has_session_id=environ.get("OTEL_METRICS_INCLUDE_SESSION_ID", "true").lower() != "false",
        is_cumulative=preference == "cumulative",
        problems=tuple(problems),
    )


def own(environ: Mapping[str, str], name: str, signal: str) -> str:
    """Return a signal's own variable, or else the variable for all signals."""
    return environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}") or environ.get(
        f"OTEL_EXPORTER_OTLP_{name}", ""
    )


def read_pairs(text: str) -> dict[str, str]:
    """Return the pairs in `name=value,name=value`; values may be percent-encoded."""
    from urllib.parse import unquote

    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs if name.strip()}


def read_interval(text: str, usual: float) -> float:
    try:
        return float(text)
    except ValueError:
        return usual


def is_yes(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true", "yes", "on")


class Telemetry(Part):
    """The session part that collects metrics and events, and sends both at intervals."""

    name = "telemetry"

    def __init__(self, ground: Ground, thread: Thread) -> None:
        self._ground, self._thread = ground, thread
        self._plan = plan_telemetry(ground.environ, ground.environment)
        self._records: deque[Json] = deque(maxlen=MOST_RECORDS)
        self._sequence = self._dropped = 0
        self._began_ns = self._sent_ns = time.time_ns()
        self._started_s: dict[str, float] = {}
        # The latest responses, because one may be reported twice.
        self._seen: deque[tuple[str, str]] = deque(maxlen=100)
        # The ledger's sums at the start, and how much of each sum was sent.
        self._before = {(METRICS, *key): value for key, value in self._sums().items()}
        self._sent: dict[tuple[str, ...], float] = {}
        self._helper_headers: tuple[tuple[str, str], ...] | None = None
        self._failure = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, _context: PartContext, /) -> None:
        self._thread.spending.listen(self._charged)
        self._tasks = [
            asyncio.create_task(self._repeat(signal, target.interval_s))
            for signal, target in self._plan.targets.items()
        ]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if not self._tasks:
            return
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(LAST_S):
                for signal in self._plan.targets:
                    await self._export(signal)
        except TimeoutError:
            self._failure = self._failure or f"no response within {LAST_S:g} s"
        if self._failure:
            getLogger("clew.telemetry").warning("telemetry: %s", self._failure)

    def notices(self) -> Iterable[str]:
        return self._plan.problems

    # -- what happens in the session

    def watch(self, emit: Emit) -> Emit:
        async def watched(event: EngineEvent) -> None:
            self._note(event)
            await emit(event)

        return watched

    def _note(self, event: EngineEvent, agent: str = "") -> None:
        match event:
            case FromAgent():
                self._note(event.event, event.agent_id)
            case Recorded() if not agent:
                for entry in event.entries:
                    self._note_prompt(entry)
            case ToolStarted():
                self._started_s[event.block["id"]] = time.monotonic()
            case ToolFinished():
                self._note_result(event, agent)
            case Retrying():
                self._note_error(event.failure.message, event.failure.status, event.attempt)
            case FellBack():
                self._note_error(event.failure.message, event.failure.status, 0)
            case TurnEnded() if event.is_error and event.message:
                self._note_error(event.message, event.status, 0)
            case _:
                pass

    def _note_prompt(self, entry: Json) -> None:
        if entry.get("type") != "user" or "toolUseResult" in entry:
            return
        if UserMessage(entry).face == "typed" and (text := prompt_text(entry)):
            shown = text if self._plan.logs_prompts else "<REDACTED>"
            self._log("user_prompt", {"prompt_length": len(text), "prompt": shown})

    def _note_result(self, event: ToolFinished, agent: str) -> None:
        started_s = self._started_s.pop(event.block["id"], None)
        attributes: dict[str, Value] = {
            "tool_name": event.block["name"],
            "success": "false" if event.is_error else "true",
            "duration_ms": 0 if started_s is None else round((time.monotonic() - started_s) * 1000),
            # A call that never started was denied or invalid.
            "decision_type": "reject" if started_s is None else "accept",
        }
        if agent:
            attributes["agent_id"] = agent
        if self._plan.logs_tools:
            attributes["tool_parameters"] = json.dumps(event.block["input"], ensure_ascii=False)
        self._log("tool_result", attributes)

    def _note_error(self, words: str, status: int | None, attempt: int) -> None:
        attributes: dict[str, Value] = {
            "model": self._thread.spending.state.model,
            "error": words,
            "attempt": attempt,
        }
        if status is not None:
            attributes["status_code"] = status
        self._log("api_error", attributes)

    def _charged(self, charge: Change | Charge, _: SessionState) -> None:
        if not isinstance(charge, Charge) or charge.key in self._seen:
            return
        self._seen.append(charge.key)
        tokens = charge.tokens
        cost: Attributes = {} if charge.usd is None else {"cost_usd": float(charge.usd)}
        self._log(
            "api_request",
            {
                "model": charge.model,
                "duration_ms": round(charge.duration_ms),
                "input_tokens": tokens.input,
                "output_tokens": tokens.output,
                "cache_read_tokens": tokens.cache_read,
                "cache_creation_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
                "query_source": charge.purpose,
                **cost,
            },
        )

    def _log(self, name: str, attributes: Attributes) -> None:
        if LOGS not in self._plan.targets:
            return
        if len(self._records) == MOST_RECORDS:
            self._dropped += 1
        self._sequence += 1
        about: dict[str, Value] = {
            "event.name": name,
            "event.timestamp": get_timestamp(),
            "event.sequence": self._sequence,
            "session.id": self._thread.session_id,
        }
        now = str(time.time_ns())
        self._records.append(
            {
                "timeUnixNano": now,
                "observedTimeUnixNano": now,
                "severityNumber": 17 if name == "api_error" else 9,
                "severityText": "ERROR" if name == "api_error" else "INFO",
                "body": {"stringValue": PREFIX + name},
                "attributes": self._encode({**about, **attributes}),
            }
        )

    # -- sums

    def _sums(self) -> dict[tuple[str, ...], float]:
        """Return the sums of the session.

        A key consists of the metric's name and the names and values of its attributes.
        """
        state, spending = self._thread.spending.state, self._thread.spending
        sums: dict[tuple[str, ...], float] = {
            ("lines_of_code.count", "type", "added"): state.lines_added,
            ("lines_of_code.count", "type", "removed"): state.lines_removed,
            ("commit.count",): state.commits,
            ("pull_request.count",): state.pull_requests,
            ("active_time.total", "type", "cli"): (state.api_ms + state.tool_ms) / 1000,
        }
        for model, spend in spending.ledger.by_model().items():
            sums["cost.usage", "model", model] = float(spend.usd)
            for kind, count in tokens_of(spend).items():
                sums["token.usage", "type", kind, "model", model] = count
        return sums

    def _metrics(self) -> tuple[list[Json], dict[tuple[str, ...], float]]:
        """Return the metrics that changed since they were last sent, and the current sums."""
        now = time.time_ns()
        points: dict[str, list[Json]] = {}
        sums = {
            key: value - self._before.get((METRICS, *key), 0) for key, value in self._sums().items()
        }
        sums["session.count",] = 1
        for key, value in sums.items():
            sent = self._sent.get(key, 0)
            if value <= sent:
                continue
            name, *pairs = key
            attributes = dict(zip(pairs[::2], pairs[1::2], strict=True))
            if self._plan.has_session_id:
                attributes["session.id"] = self._thread.session_id
            is_whole = name not in ("cost.usage", "active_time.total")
            amount = value if self._plan.is_cumulative else value - sent
            points.setdefault(name, []).append(
                {
                    "attributes": self._encode(attributes),
                    "startTimeUnixNano": str(
                        self._began_ns if self._plan.is_cumulative else self._sent_ns
                    ),
                    "timeUnixNano": str(now),
                }
                | ({"asInt": str(round(amount))} if is_whole else {"asDouble": amount})
            )
        temporality = CUMULATIVE if self._plan.is_cumulative else DELTA
        metrics: list[Json] = [
            {
                "name": PREFIX + name,
                "unit": UNITS.get(name, "count"),
                "sum": {
                    "aggregationTemporality": temporality,
                    "isMonotonic": True,
                    "dataPoints": found,
                },
            }
            for name, found in points.items()
        ]
        return metrics, sums

    def _encode(self, attributes: Attributes) -> list[Json]:
        return encode_attributes(attributes, self._ground.secrets)

    # -- sending

    async def _repeat(self, signal: str, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await self._export(signal)

    async def _export(self, signal: str) -> None:
        now, sums = time.time_ns(), self._sent
        if signal == METRICS:
            rows, sums = self._metrics()
            group, scope, name = "resourceMetrics", "scopeMetrics", "metrics"
        else:
            rows = list(self._records)
            group, scope, name = "resourceLogs", "scopeLogs", "logRecords"
        if not rows:
            return
        own_scope = {"scope": {"name": "clew", "version": VERSION}, name: rows}
        resource = {"attributes": self._encode(self._plan.resource)}
        body = json.dumps({group: [{"resource": resource, scope: [own_scope]}]}).encode()
        status = await self._post(self._plan.targets[signal], body)
        if status in (401, 403) and self._helper_headers:
            self._helper_headers = None  # They may have expired.
            status = await self._post(self._plan.targets[signal], body)
        if status is None or status >= 500 or status == 429:
            self._failure = self._failure or f"{self._plan.targets[signal].shown}: HTTP {status}"
            return  # It is sent with the next attempt.
        self._failure = (
            f"{self._plan.targets[signal].shown} rejected {signal} (HTTP {status})"
            if status >= 400
            else ""
        )
        if signal == METRICS:
            self._sent, self._sent_ns = sums, now
        else:
            for _ in range(min(len(rows), len(self._records))):
                self._records.popleft()

    async def _post(self, target: TelemetryTarget, body: bytes) -> int | None:
        """Send a body and return the HTTP status. On failure, store the reason and return None."""
        headers = (*target.headers, *await self._find_helper_headers())
        request = HttpRequest(
            method="POST",
            url=target.url,
            headers=(*headers, ("Content-Type", "application/json")),
            body=body,
        )
        exchange = self._ground.service.provider.transport.exchange(request)
        try:
            async with asyncio.timeout(SEND_S):
                return (await exchange.open()).status
        except (TransportError, TimeoutError) as error:
            why = describe_error(error) or f"no response within {SEND_S:g} s"
            self._failure = f"cannot send to {target.shown}: {mask(why, self._ground.secrets)}"
            return None
        finally:
            await exchange.close()

    async def _find_helper_headers(self) -> Sequence[tuple[str, str]]:
        """Return the headers that the command `otelHeadersHelper` prints as a JSON object.

        The command runs once, unless it fails.
        """
        command = read_text(self._ground.began.settings, "otelHeadersHelper")
        if not command:
            return ()
        if self._helper_headers is None:
            out = await run_helper(
                self._ground.launcher, command, self._ground.cwd, self._ground.environ
            )
            self._helper_headers = read_headers(out)
            if not self._helper_headers:
                what = "failed" if out is None else "did not print a JSON object of strings"
                self._failure = f"otelHeadersHelper {what}"
        return self._helper_headers


UNITS = {"cost.usage": "USD", "token.usage": "tokens", "active_time.total": "s"}


def tokens_of(spend: Spend) -> dict[str, int]:
    tokens = spend.tokens
    return {
        "input": tokens.input,
        "output": tokens.output,
        "cacheRead": tokens.cache_read,
        "cacheCreation": tokens.cache_write_5m + tokens.cache_write_1h,
    }


def encode_attributes(attributes: Attributes, secrets: tuple[str, ...]) -> list[Json]:
    """Return attributes in OTLP's JSON form, with secrets masked and long strings shortened."""
    return [
        {"key": key, "value": encode_value(value, secrets)} for key, value in attributes.items()
    ]


def encode_value(value: Value, secrets: tuple[str, ...]) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": mask(value, secrets)[:MAX_VALUE_CHARS]}


def read_headers(out: str | None) -> tuple[tuple[str, str], ...]:
    try:
        found = json.loads(out or "")
    except ValueError:
        return ()
    pairs = found.items() if isinstance(found, dict) else ()
    return tuple((name, value) for name, value in pairs if isinstance(value, str))
