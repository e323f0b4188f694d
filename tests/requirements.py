"""The table of requirements, linked to the tests in both directions.

A record is `done` if a test that carries its ID (`@requirement("R049")`) runs the real program and
checks the behavior in the transcript, the requests, the frames or the screen. It is not enough that
a kind of entry is parsed and written back. Tests of single modules carry the ID too. Any other
state says when the requirement will be met (`deferred: step N | next round | reason`), or how clew
differs on purpose (`diverges: why`). `tests/gates/test_requirements.py` fails if a `done` record
has no such test, or if a test names an unknown or deferred ID. `make parity` prints the table.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Runs, ids_in


@dataclass(frozen=True)
class Record:
    id: str
    sentence: str
    state: str


def requirement(*ids: str) -> Callable[[Any], Any]:
    """Mark a test as proof of these records; an unknown ID fails at import."""
    unknown = [i for i in ids if i not in BY_ID]
    if unknown:
        raise KeyError(f"no such requirement: {', '.join(unknown)} (see tests/requirements.py)")
    return pytest.mark.requirement(*ids)


def ids_in_tests(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each (ID, test file) named by a `@requirement(...)` below `root`, found in the text."""
    for path in sorted(root.rglob("test_*.py")):
        for record_id in ids_in(path.read_text("utf-8")):
            yield record_id, str(path.relative_to(root))


@dataclass
class Shown:
    """The test files that carry a record's ID.

    `runs` are those with a test that runs the program.
    """

    files: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)


def read_tests(root: Path) -> dict[str, Shown]:
    """Return, for each ID, the tests below `root` that carry it."""
    found: dict[str, Shown] = {}
    for record_id, path, is_run in Runs(root).records():
        shown = found.setdefault(record_id, Shown())
        shown.files.add(path)
        if is_run:
            shown.runs.add(path)
    return found


def main() -> int:
    tests = read_tests(Path(__file__).parent)
    for record in RECORDS:
        shown = tests.get(record.id, Shown())
        files = ", ".join(f"{path}{'*' * (path in shown.runs)}" for path in sorted(shown.files))
        print(
            f"{record.id:<5} {record.state:<20} {record.sentence}{f'  [{files}]' if files else ''}"
        )
    counts = Counter(record.state.split(":")[0] for record in RECORDS)
    print(f"\n{len(RECORDS)} records: " + ", ".join(f"{n} {s}" for s, n in counts.most_common()))
    done = [record.id for record in RECORDS if record.state == "done"]
    run = sum(bool(tests[i].runs) for i in done if i in tests)
    print(f"{run} of {len(done)} done records are shown by a run of the program (marked *)")
    return 0


# Techniques inside of the program, which nothing that it writes or shows could tell from others.
UNSEEN = {
    "R228": "which strings share memory",
    "R229": "when the views of blocks are made",
}

# One line a record: people who work side by side change lines, not blocks.
# fmt: off
RECORDS: tuple[Record, ...] = (
    Record("R001", "Three separate representations exist and never leak into each other: internal CLI message, API wire message, streaming accumulator (partial message + deltas + map …", "done"),
    Record("R002", "Every internal message has a type discriminator; user, assistant, attachment, progress are accepted", "done"),
    Record("R003", "Full union: user, assistant, system, progress, attachment as messages", "done"),
    Record("R004", "Every message has uuid (UUID string) and timestamp (ISO-8601)", "done"),
    Record("R005", "message only on user/assistant, attachment only on attachment, progress payload only on progress; a validator rejects other combinations", "done"),
    Record("R006", "Assistant inner message carries role, id (API id), model, stop_reason, stop_sequence, usage, content (string or block list)", "done"),
    Record("R007", "CLI metadata costUSD and durationMs are attached to assistant messages after the API call", "done"),
    Record("R008", "requestId, isApiErrorMessage and isMeta are optional metadata fields", "done"),
    Record("R009", "Progress payload has toolUseID, optional parentToolUseID (sub-agent tools) and tool-specific data", "done"),
    Record("R010", "UserMessage fields: message.role/content, isMeta, isVirtual, isCompactSummary, toolUseResult, sourceToolAssistantUUID, permissionMode, origin, imagePasteIds", "diverges: imagePasteIds is read, not written: pasted images are blocks of the prompt"),
    Record("R011", "Further user fields: isVisibleInTranscriptOnly, mcpMeta; caller may pass uuid and timestamp", "done"),
    Record("R012", "AssistantMessage fields: content blocks, usage, model, stop_reason, requestId, apiError, error, errorDetails, isApiErrorMessage, isVirtual, advisorModel", "diverges: advisorModel and apiError are read, not written: clew asks no advisor, and names errors in error, errorDetails and apiErrorStatus"),
    Record("R013", "SystemMessage has subtype, uuid, timestamp, optional content", "done"),
    Record("R014", "Subtypes: compact_boundary, local_command, api_error, informational, microcompact_boundary, memory_saved, stop_hook_summary, turn_duration, api_metrics …", "done"),
    Record("R015", "Subtypes are a flat enum (no class hierarchy); adding one needs no change to existing handlers", "done"),
    Record("R016", "AttachmentMessage has uuid, timestamp, attachment payload", "done"),
    Record("R017", "TombstoneMessage wraps the assistant message it removes; consumers remove the matching message from the display list", "done"),
    Record("R018", "StreamEvent wraps one raw API stream event; RequestStartEvent marks the start of a request", "done"),
    Record("R019", "ToolUseSummaryMessage has uuid, summary text and the list of toolUseIds it covers", "done"),
    Record("R020", "A user message can be: human input, tool result, meta message (hidden from UI, visible to model), virtual message (UI only, never sent)", "done"),
    Record("R021", "A tool-result user message stores the original tool output in toolUseResult and points at its assistant message by sourceToolAssistantUUID", "done"),
    Record("R022", "Meta messages cover at least: injected warnings, max_output_tokens recovery instruction, post-compaction summary", "done"),
    Record("R023", "Default usage mirrors the API object: input/output tokens, cache creation/read, server_tool_use {web_search_requests, web_fetch_requests}, service_tier, cache_creation …", "done"),
    Record("R024", "A synthetic assistant message has model \"<synthetic>\", role assistant, stop_reason \"stop_sequence\", stop_sequence \"\", container null, context_management null and a …", "done"),
    Record("R025", "Synthetic API-error messages are recognised by the model marker plus error flag (isSyntheticApiErrorMessage)", "done"),
    Record("R026", "Only three mutation points exist: stream accumulation, tool-result injection, cost/duration metadata", "done"),
    Record("R027", "Message creation is O(1), serialisation O(content size); a message removed from history becomes collectable (no other owner)", "done"),
    Record("R028", "State machine UserInput -> CliMessage -> APIMessage -> stream -> deltas -> accumulated message -> tool_use? -> execution (with progress) -> tool_result block -> …", "done"),
    Record("R029", "ContentBlock union: text, image, tool_use, tool_result, thinking, document, video, guard content, reasoning, cache point", "done"),
    Record("R030", "text {type,text} valid for both roles", "done"),
    Record("R031", "tool_use {type,id,name,input} only from assistant; id unique within the session", "done"),
    Record("R032", "tool_result {type,tool_use_id,content,is_error} only in user messages; content string or block list; is_error marks failure", "done"),
    Record("R033", "image {type, source:{type:base64, media_type, data}} only in user role (directly or inside tool_result)", "done"),
    Record("R034", "Streamability by block: text and tool_use stream, image does not", "done"),
    Record("R035", "Token estimate: text as text; tool_use = input JSON + about 20; tool_result = text + about 10; image by dimensions", "done"),
    Record("R036", "One tool call adds exactly two messages (assistant request, user result)", "done"),
    Record("R037", "Wire message = role + content only; no CLI field (uuid, timestamp, isMeta, costUSD, requestId, stop_reason...) reaches the request body", "done"),
    Record("R038", "Roles alternate strictly user/assistant in the request", "done"),
    Record("R039", "First message is user", "done"),
    Record("R040", "Every tool_result.tool_use_id matches an earlier tool_use id", "done"),
    Record("R041", "No message has an empty content array", "done"),
    Record("R042", "tool_use.input is valid JSON", "done"),
    Record("R043", "There is no tool role; tool output travels as a user message", "done"),
    Record("R044", "Parallel tool calls: N tool_use in one assistant message are answered by N tool_result in one user message, matched by id", "done"),
    Record("R045", "System prompt is a separate request parameter, not a message", "done"),
    Record("R046", "Request carries model, system, messages, tools, stream true", "done"),
    Record("R047", "A failing tool yields is_error:true with a text the model can act on; the loop does not abort", "done"),
    Record("R048", "Before sending, tokens are counted; over the limit -> compaction -> summary message -> send", "done"),
    Record("R049", "Two layers: a byte/newline decoder and an SSE event decoder; an event may span chunks, a chunk may hold several events", "done"),
    Record("R050", "A blank line ends an event; events without data lines yield nothing", "done"),
    Record("R051", "event: sets the type, repeated data: lines are joined with newline, raw lines are kept for diagnostics", "done"),
    Record("R052", "Decoding is streaming UTF-8 (partial code points kept over chunks), incomplete last line kept", "done"),
    Record("R053", "Platform streams may wrap payloads as {bytes: base64}; decoded payload kinds: client ContinuedUserInput/ToolResultBlock/ConversationTurnInput, server …", "done"),
    Record("R054", "Text is rendered as it arrives; the user can stop it at any time; a failed direction is visible early", "done"),
    Record("R055", "message_start gives id, role, model, initial usage", "done"),
    Record("R056", "content_block_start(index, content_block) opens text or tool_use(id,name)", "done"),
    Record("R057", "content_block_delta carries text_delta or input_json_delta.partial_json, addressed by index", "done"),
    Record("R058", "Tool arguments are accumulated and parsed only at content_block_stop", "done"),
    Record("R059", "Text may be rendered while arriving, tools may not start before their arguments are complete", "done"),
    Record("R060", "message_delta carries stop_reason and usage; tool_use -> run tools and continue; end_turn -> wait for the user", "done"),
    Record("R061", "The consumer always knows its state (start/content/stop), an out-of-order event is a detected error", "done"),
    Record("R062", "A text_delta appends to the current text block of the partial message", "done"),
    Record("R063", "usage and stop_reason may arrive after the assistant message was already yielded; the recorded message must end up with the final values", "done"),
    Record("R064", "On streaming fallback to another model, already yielded partial assistant messages are withdrawn by tombstones, one per message", "diverges: an incomplete answer is in no line of the transcript, so a fallback withdraws it by an event; tombstones mark recorded entries that leave the conversation, as when a compaction is undone"),
    Record("R065", "Incremental parser keeps buffer, nesting depth, in-string and escape state over chunks", "done"),
    Record("R066", "It attempts a parse when depth returns to 0", "done"),
    Record("R067", "It auto-closes an unterminated string and reports repaired:true", "done"),
    Record("R068", "Otherwise it reports incomplete, with the error when a parse was attempted", "done"),
    Record("R069", "Cancel aborts the HTTP stream at once and ends the turn as cancelled, not as an error", "done"),
    Record("R070", "Escape and SIGINT both trigger the cancel", "done"),
    Record("R071", "Stream watchdog: check every 5 s, time out after 30 s without any event; abort is idempotent and cleans up timers", "done"),
    Record("R072", "Unstable network, overloaded server, closed terminal all end in a defined state", "done"),
    Record("R073", "Retryable types: overloaded_error, rate_limit_error, api_error, timeout, ECONNRESET, ETIMEDOUT; statuses 408, 429, 500, 502, 503, 504", "done"),
    Record("R074", "429: wait retry-after seconds, hold queued requests, then resume the queue", "done"),
    Record("R075", "529/other: exponential back-off base 1 s, factor 2, cap 30 s, jitter +-10 %: 1,2,4,8,16,30 s", "done"),
    Record("R076", "Non-retryable errors (bad parameters) surface at once", "done"),
    Record("R077", "The text \"input length and max_tokens exceed context limit: A + B > C\" is recognised and parsed", "done"),
    Record("R078", "New max_tokens = limit - input - 1000; if below 3000 -> cannot recover, compact. (200000, 195000 -> 4000.)", "done"),
    Record("R079", "Messages are only built by factories that guarantee the invariants", "done"),
    Record("R080", "Empty content becomes the NO_CONTENT_MESSAGE placeholder", "done"),
    Record("R081", "uuid defaults to a random UUID, timestamp to now", "diverges: ids and times are arguments of the factories, so that nothing pure reads a clock or a random source"),
    Record("R082", "createAssistantMessage wraps a plain string into one text block; \"\" becomes the placeholder; separate factory for API errors", "done"),
    Record("R083", "createProgressMessage is generic over the tool's progress type", "done"),
    Record("R084", "Fixed texts: \"[Request interrupted by user]\", CANCEL, REJECT, INTERRUPT_MESSAGE_FOR_TOOL_USE, NO_RESPONSE_REQUESTED", "done"),
    Record("R085", "Synthetic messages are excluded from user-message statistics", "done"),
    Record("R086", "Child UUID = first 24 characters of the parent UUID + 12 hex digits of the index; same message always gives the same children", "done"),
    Record("R087", "Tool result is stored twice: serialised for the API in content[0].content, raw in toolUseResult for UI", "done"),
    Record("R088", "On interruption or API exception every unanswered tool_use gets an is_error tool_result carrying the error text", "done"),
    Record("R089", "Placeholder text \"[Tool result missing due to internal error]\" is a known constant so data exports can reject conversations that contain it", "done"),
    Record("R090", "Rejection text differs for user rejection, sub-agent denial (no user), and auto-mode classifier denial (with reason)", "done"),
    Record("R091", "Denial guidance allows natural alternatives but forbids malicious workarounds; other independent work may go on", "done"),
    Record("R092", "Tool results are injected as user messages", "done"),
    Record("R093", "progress, isVirtual and synthetic API-error messages are removed", "done"),
    Record("R094", "Attachments are moved so that nothing stands between a tool_use and its tool_result", "done"),
    Record("R095", "Consecutive user messages are merged (Bedrock rejects them, 1P merges itself)", "done"),
    Record("R096", "local_command system messages become user messages keeping uuid and timestamp", "done"),
    Record("R097", "After an image/PDF-too-large failure the offending block types are stripped from the targeted (meta) messages so the error does not repeat", "done"),
    Record("R098", "Normaliser receives the tool list; tool names not available any more are handled", "done"),
    Record("R099", "Order: filter, reorder attachments, merge user, system->user, strip media, alternate roles", "done"),
    Record("R100", "Messages with several blocks are split into one message per block; content order kept", "done"),
    Record("R101", "UUIDs stay unique after splitting; once a split happened, later messages get derived UUIDs too", "done"),
    Record("R102", "UI order groups tool_use, pre-hooks, tool_result, post-hooks per tool_use id with a two-pass O(n) algorithm, whatever the arrival order", "done"),
    Record("R103", "sessionId (UUID v4), originalCwd (start), cwd (changes with cd) are separate; startTime kept", "done"),
    Record("R104", "Totals: totalCostUSD, totalAPIDuration, totalToolDuration, per-model input/output/cache-read/cache-creation/thinking tokens, requests, costUSD", "done"),
    Record("R105", "Use is accounted per model (main loop and sub-agents may differ)", "done"),
    Record("R106", "mainLoopModelOverride, initialMainLoopModel, modelStrings (available models) are state", "done"),
    Record("R107", "Counters: sessions, lines of code, PRs, commits", "done"),
    Record("R108", "totalLinesAdded / totalLinesRemoved, alwaysAllowedTools (session grants), todos with pending/in_progress/completed", "done"),
    Record("R109", "Flags lastInteractionTime, hasUnknownModelCost, maxRateLimitFallbackActive", "done"),
    Record("R110", "Cost: cache read 10 % of input price, cache write 125 %, output at output price; /cost shows it", "done"),
    Record("R111", "Every API call updates model stats and totals immediately; the status line shows it", "done"),
    Record("R112", "API time and tool time are measured separately", "done"),
    Record("R113", "Single source of truth: two components never show different cost", "done"),
    Record("R114", "State changes go through one access path and are persisted asynchronously without blocking", "done"),
    Record("R115", "Configuration from environment is read once at start and frozen in the session", "done"),
    Record("R116", "Sources: base instructions, CLAUDE.md layers, git context, directory structure, tool definitions, per-model adaptation", "done"),
    Record("R117", "Assembly order base, model, claude.md, git, files, tools; section separators; size limit (token budget); prioritisation recency or relevance", "done"),
    Record("R118", "Git context: branch, modified/untracked/staged lists, recent commits (hash, message, author, timestamp), uncommitted diff only conditionally", "done"),
    Record("R119", "Directory structure is cached and refreshed", "done"),
    Record("R120", "Four layers with priority local > user > project > managed", "done"),
    Record("R121", "Load order managed (/etc/claude-code/CLAUDE.md), user (~/.claude/CLAUDE.md), project (<project>/.claude/CLAUDE.md), local (.claude/CLAUDE.md), loaded concurrently", "done"),
    Record("R122", "Default concatenation with separators; @override and @append directives", "done"),
    Record("R123", "Content cached by mtime and reloaded when it changes", "done"),
    Record("R124", "Input starting with # writes a memory note into CLAUDE.md", "done"),
    Record("R125", "Memory directory with MEMORY.md, loading, extraction of memories from sessions, /memory and /remember commands", "done"),
    Record("R126", "Tool has name, description, optional prompt for the model", "done"),
    Record("R127", "Dual schema: runtime validation model and JSON Schema for the API, generated once and memoised; validation compiled lazily", "done"),
    Record("R128", "call() is an async generator yielding progress and finally a result", "diverges: call() is a coroutine that awaits emit for progress and returns the one result; a yield inside a time limit escapes its cancellation (PEP 789)"),
    Record("R129", "Optional checkPermissions(input, context, permission context) -> decision", "diverges: a tool never judges itself; permissions/ decides from a table of what each tool touches"),
    Record("R130", "mapToolResultToToolResultBlockParam(result, toolUseId) -> block(s)", "done"),
    Record("R131", "isReadOnly, isMcp, isEnabled(config), getPath(input)", "done"),
    Record("R132", "renderToolUseMessage(input) for UI", "done"),
    Record("R133", "Static definition about 2 KB per tool", "done"),
    Record("R134", "Context carries a cancellation handle that reaches every tool", "done"),
    Record("R135", "readFileState: path -> {content, mtime} of files read in this session (used for edit safety)", "done"),
    Record("R136", "Context exposes permission context getter, tools, mainLoopModel, debug, verbose, isNonInteractiveSession, maxThinkingTokens, mcpClients", "done"),
    Record("R137", "Read output has line numbers, format \"<number>\\t<line>\"", "done"),
    Record("R138", "Edit fails with a clear error when old_string is not in the file", "done"),
    Record("R139", "Tool set to cover: Bash, PowerShell, Agent, LSP, FileEdit, FileRead, Skill, WebFetch, MCP, SendMessage, FileWrite, Config, Grep, Brief, ExitPlanMode, ToolSearch …", "done"),
    Record("R140", "Streaming tool executor: tools may start while the response still streams and run concurrently (addTool as each tool_use block completes)", "done"),
    Record("R141", "Modes default, acceptEdits, bypassPermissions", "done"),
    Record("R142", "additionalWorkingDirectories extend the allowed roots", "done"),
    Record("R143", "alwaysAllow and alwaysDeny rules are stored per scope", "done"),
    Record("R144", "Scope priority cliArg > localSettings > projectSettings > policySettings > userSettings", "done"),
    Record("R145", "Permission request UI, a seam (useCanUseTool) where SDK/host can answer instead of the user", "done"),
    Record("R146", "Command execution passes many checks (title: 15 lines of defence) before running", "done"),
    Record("R147", "permissionMode is recorded on the user message", "done"),
    Record("R148", "JSON-RPC 2.0 requests, responses, notifications; error {code,message,data}; id string or number, absent on notifications", "done"),
    Record("R149", "Capability negotiation: experimental, roots, sampling, prompts, resources, tools, logging", "done"),
    Record("R150", "Tool spec: name, description, inputSchema (always JSON Schema), isReadOnly, requiresConfirmation, timeout, maxRetries", "done"),
    Record("R151", "State machine Disconnected -> Connecting -> Initializing -> Ready -> Closing -> Disconnected, Failed -> reset", "done"),
    Record("R152", "MCP client, /mcp management, an MCP stdio server of the agent itself, MCP prompts turned into skills", "done"),
    Record("R153", "One JSON file per session is an import and export form only", "done"),
    Record("R154", "metadata: gitBranch, projectPath, created, modified, messageCount; version field for migration", "done"),
    Record("R155", "Append-only JSONL at <config>/projects/<project>/<sessionId>.jsonl", "done"),
    Record("R156", "Sub-agent transcripts at <sessionId>/subagents/agent-<agentId>.jsonl", "done"),
    Record("R157", "Optional grouping subagents/workflows/<runId>/ via a per-agent subdir map set before the agent runs and cleared after", "done"),
    Record("R158", "Config home is configurable; projects dir = join(config home, \"projects\")", "done"),
    Record("R159", "Transcript path = (sessionProjectDir ?? projectDir(originalCwd))/<sessionId>.jsonl", "done"),
    Record("R160", "sessionId and sessionProjectDir change atomically; path for the current id equals the write path, also for hooks' transcript_path", "done"),
    Record("R161", "cwd is never cached at import; realpath is resolved once in bootstrap, so a symlinked start dir reads and writes the same directory", "done"),
    Record("R162", "For other session ids callers pass the full path; guessing is a documented fallback", "done"),
    Record("R163", "Whole-file operations (raw read, tombstone rewrite) refuse above 50 MiB (MAX_TRANSCRIPT_READ_BYTES, MAX_TOMBSTONE_REWRITE_BYTES)", "diverges: no size limit; the reader streams and reads only what is live (W27)"),
    Record("R164", "Project dir mode 0700, transcript mode 0600", "done"),
    Record("R165", "UUIDs are validated with a strict case-insensitive regex before being used in paths", "done"),
    Record("R166", "A short hash (djb2) is part of path naming for long paths", "done"),
    Record("R167", "A transcript is a mixed stream of entry kinds: messages, file history snapshots, queue operations, attribution snapshots, content replacements, titles, ", "done"),
    Record("R168", "isTranscriptMessage = user, assistant, attachment, system; it is the only filter the loader uses", "done"),
    Record("R169", "progress never becomes a parentUuid target (isChainParticipant)", "done"),
    Record("R170", "Legacy files with progress inside the chain load without orphaning: the chain is bridged over them", "done"),
    Record("R171", "Ephemeral tool progress is recognised and kept out", "done"),
    Record("R172", "parentUuid forms the conversation chain; a fork is representable", "done"),
    Record("R173", "Separate record calls: queue operation, file history snapshot (messageId, snapshot, isSnapshotUpdate), attribution snapshot, content replacement (optionally per agent)", "done"),
    Record("R174", "removeTranscriptMessage(uuid) removes an orphaned line after a tombstone", "done"),
    Record("R175", "Loader also rebuilds custom titles and compact-boundary metadata; renaming a session does not rewrite the chain", "done"),
    Record("R176", "List views use head/tail reads of 64 KiB (LITE_READ_BUF_SIZE = 65536), never the whole file", "done"),
    Record("R177", "JSON string fields can be extracted from truncated lines without a full parse; unescape allocates only when needed", "done"),
    Record("R178", "First-prompt extraction skips texts starting with a lowercase XML-like tag or the interrupt marker", "done"),
    Record("R179", "Messages are cleaned of non-persisted fields before logging", "done"),
    Record("R180", "Recording is incremental: only uuids not yet in the session's set are written", "done"),
    Record("R181", "Already recorded messages move the parent pointer only while they form a prefix; after compaction kept messages do not", "done"),
    Record("R182", "Return value = uuid of the last newly recorded chain participant, else the prefix uuid, else null", "done"),
    Record("R183", "A starting-parent hint avoids an O(n) scan", "done"),
    Record("R184", "Writes go through one buffered project writer; flush() drains it before exit", "done"),
    Record("R185", "User messages are durably recorded before the API request starts (await), except in bare/script mode", "done"),
    Record("R186", "A process killed seconds after submit is still listed and resumable", "done"),
    Record("R187", "Assistant messages are queued without awaiting; a ~100 ms delayed serialisation picks up final usage/stop_reason", "done"),
    Record("R188", "Before a compact boundary is written, all messages up to the preserved segment's tail are recorded, else resume relinking fails", "done"),
    Record("R189", "Concurrent writers are excluded by a lock file .<id>.lock with a timestamp; stale after 5 minutes", "diverges: a kernel lock on the transcript itself instead of a lock file (W29)"),
    Record("R190", "resetSessionFilePointer after switchSession/regenerateSessionId; the next user/assistant message lazily creates the new file", "done"),
    Record("R191", "After switchSession no message ever lands in the old file", "done"),
    Record("R192", "Auto-compaction runs when over the threshold; /compact runs it manually", "done"),
    Record("R193", "compact_boundary and microcompact_boundary are persisted system messages used by resume", "done"),
    Record("R194", "compactMetadata.preservedSegment.tailUuid identifies kept messages; on load they are relinked tail-to-head", "done"),
    Record("R195", "--resume lists recent sessions and restores state and messages", "done"),
    Record("R196", "Very long histories resume through a summary message \"This session is being continued from a previous conversation...\" as first message", "diverges: a resume asks no model by itself; a person chooses the summary, which then comes first (W30, C15)"),
    Record("R197", "After /continue message order equals the recorded order", "done"),
    Record("R198", "Resume picker screen (ResumeConversation), Doctor screen", "done"),
    Record("R199", "Sub-agent resume restores agentType, worktree cwd and description from sidecar metadata", "done"),
    Record("R200", "Snapshots keyed by message id support rewind", "done"),
    Record("R201", "A sub-agent shares the session id; the file path separates it", "done"),
    Record("R202", ".meta.json sidecar {agentType, worktreePath?, description?}; older files without description load", "done"),
    Record("R203", "Without metadata a resumed agent must not silently degrade to the general-purpose type", "done"),
    Record("R204", "recordSidechainTranscript writes with isSidechain true and an agentId, own parent chain", "done"),
    Record("R205", "Remote agents have their own metadata (read, list)", "done"),
    Record("R206", "Task kinds: local agent, backgrounded main session, remote agent, in-process team mate, background shell, workflow, dream, monitor", "diverges: all of them but workflows, which clew does not begin (R287), are tasks of one registry that can be watched and stopped"),
    Record("R207", "Sub-agent tool progress carries parentToolUseID so the UI can nest it", "done"),
    Record("R208", "hydrateRemoteSession: switch session, fetch remote log, replace the local JSONL, set the ingress URL in a finally block, return false on failure without raising to the …", "done"),
    Record("R209", "Diagnostics for hydration contain no personal data", "done"),
    Record("R210", "Bridge (REPL bridge, messaging, remote core, remote permissions UI) and CLI transports, serial uploader exist as subsystems", "done"),
    Record("R211", "Input kinds: plain text, /command, !shell (synthetic Bash tool message), #memory, pasted image or text with type detection", "done"),
    Record("R212", "All kinds converge to messages stripped of CLI metadata before sending", "done"),
    Record("R213", "Status line shows current model, cost, duration; live", "done"),
    Record("R214", "REPL, message rows, permission dialog, prompt input components", "done"),
    Record("R215", "Rendering pipeline with screen buffer; handles resize, bracketed paste, stdin events; search; scroll box", "done"),
    Record("R216", "Keybinding registry with defaults per platform, bindings to slash commands, vim mode", "done"),
    Record("R217", "Command registry with /model, /mcp, /compact, /memory among others", "done"),
    Record("R218", "Structured IO: NDJSON SDK protocol", "done"),
    Record("R219", "Fast path at start-up (bootstrap) before heavy modules load", "done"),
    Record("R220", "Sandbox configuration has one source of truth", "done"),
    Record("R221", "Skills from disk and bundled; MCP skills; skill tool", "done"),
    Record("R222", "App state store with selectors and explicit boundaries (bootstrap, session storage, file state cache)", "done"),
    Record("R223", "Query engine: config snapshot and injected deps; token budget (\"+500k\" auto-continue); Continue/Terminal transition machine", "done"),
    Record("R224", "User shell hooks, merged local/MCP state, notifications", "done"),
    Record("R225", "Telemetry and analytics exist and are disableable", "diverges: nothing is sent unless the user switches it on (R292)"),
    Record("R226", "Auth system, plugins, build/release/self-update", "diverges: keys and plugins are there; clew is brought up to date by whatever installed it, never by itself"),
    Record("R227", "debug and verbose modes", "done"),
    Record("R228", "Repeated short strings (type, stop_reason) are interned", "done"),
    Record("R229", "Content blocks parse lazily and cache the result", "done"),
    Record("R230", "File cache frees itself under memory pressure", "done"),
    Record("R231", "UI stays responsive during streaming (rendering never blocks on persistence or parsing)", "done"),
    Record("R232", "stream buffer: 65536 bytes", "done"),
    Record("R233", "heartbeat interval / timeout: 5000 / 30000 ms", "done"),
    Record("R234", "retry base / cap / factor / jitter: 1000 ms / 30000 ms / 2 / +-10 %", "done"),
    Record("R235", "overflow safety buffer / minimum output: 1000 / 3000 tokens", "done"),
    Record("R236", "cache read / write multiplier: 0.1 / 1.25", "done"),
    Record("R237", "stale lock: 300 s", "diverges: a kernel lock has no age; it ends with its process (W29)"),
    Record("R238", "session file version: \"2.0\"", "diverges: the log's own line says `format: 1`; 2.0 was the version of the one-file JSON form"),
    Record("R239", "MAX_TRANSCRIPT_READ_BYTES, MAX_TOMBSTONE_REWRITE_BYTES: 52428800", "diverges: no size limit; the reader streams and reads only what is live (W27)"),
    Record("R240", "LITE_READ_BUF_SIZE: 65536", "done"),
    Record("R241", "persistence delay: about 100 ms", "diverges: lines are written at once, group commit instead of a delay (W23)"),
    Record("R242", "modes of directories/files: 0700 / 0600", "done"),
    Record("R243", "Bash default timeout: 120000 ms", "done"),
    Record("R244", "env: ANTHROPIC_API_KEY, CLAUDE_MODEL, BASH_MAX_OUTPUT_LENGTH, BASH_DEFAULT_TIMEOUT_MS, CLAUDE_TELEMETRY_DISABLED", "done"),
    Record("R245", "tool overhead estimate: 20 (use) / 10 (result) tokens", "done"),
    Record("R246", "continue budget: +500k tokens", "done"),
    Record("R247", "general-purpose prompt: about 4 KB", "diverges: 1.7 kB; what tools are for is in their definitions"),
    Record("R248", "default model in examples: claude-sonnet-4-20250514", "done"),
    Record("R249", "example price: $3/M in, $15/M out", "done"),
    Record("R250", "After a compaction exactly one boundary exists for it (no doubled compact boundary) and parentUuid has no break across it", "done"),
    Record("R251", "count(lines of message kinds) - count(loaded) = count(progress and other non-chain lines), nothing else is lost", "done"),
    Record("R252", "Persistence can be switched off for a run (persistSession false) and bare mode does not wait for disk", "done"),
    Record("R253", "Turn order is fixed: create user message, record, request, build assistant, feed tool executor, tool result messages, record, next request", "done"),
    Record("R254", "Five exercises run as tests: two messages, compaction keeps the parent, sub-agent makes two files, hook path equals write path, switching makes a new file", "done"),
    Record("R255", "Every request carries the whole visible history (no server-side memory is assumed)", "done"),
    Record("R256", "Text already streamed when the user cancels stays visible and is part of the history", "done"),
    Record("R257", "Interactive sessions wait for the user message to be on disk, scripts do not", "done"),
    Record("R258", "Storage failures are reported as diagnostics, never crash the UI", "done"),
    Record("R259", "If order is wrong after continue, the two checks are: progress marked as transcript; parent pointing before the summary. Both are fsck rules", "done"),
    Record("R260", "Removing blocks must not leave a message invalid (follows from R041)", "done"),
    Record("R261", "Recording takes optional team info; entries of a team carry it and readers can filter by it", "done"),
    Record("R262", "Cleaning before recording names the fields it removes (display-only, progress data, live handles) in one table, and takes the whole history where a field's removal …", "done"),
    Record("R263", "Hydrating from an empty remote returns False and leaves the local file as it is", "done"),
    Record("R264", "The light reader (head, tail, load) depends on nothing else of the project, so that other programs can use it alone", "done"),
    Record("R265", "Images may be held by reference (file, object store) and are resolved when a request is built", "done"),
    Record("R266", "Subcommands load when called", "done"),
    Record("R267", "Teammates have a view state; background tasks show as short status texts", "done"),
    Record("R268", "A registry of running sessions (pid, session, cwd, status, name) exists, is cleaned on exit and by the next start; renaming a session updates it", "done"),
    Record("R269", "A closed terminal (SIGHUP) flushes and ends in a defined state", "done"),
    Record("R270", "At the end of a turn a turn_duration system entry is written with its time, if the turn took longer than a threshold or a setting asks for it.", "done"),
    Record("R271", "Each failed request that is tried again or given up leaves an api_error system entry with status, attempt and delay.", "done"),
    Record("R272", "api_metrics (time to first token, tokens per second) is written where a setting asks for it.", "done"),
    Record("R273", "A memory that was saved leaves memory_saved with its file.", "done"),
    Record("R274", "A call that runs after its refusal was taken back leaves permission_retry.", "done"),
    Record("R275", "A user who comes back after an absence sees a summary, and away_summary records it.", "done"),
    Record("R276", "Agents ended by the user or by the program leave agents_killed with their ids.", "done"),
    Record("R277", "A schedule that fires leaves scheduled_task_fire before its prompt.", "done"),
    Record("R278", "A remote connection that is made, lost, resumed or refused leaves bridge_status.", "done"),
    Record("R279", "Groups of tool calls get a tool_use_summary for hosts and screens that ask for it.", "done"),
    Record("R280", "Virtual messages (shown, never sent) are produced where the program shows something that the model must not see, and stay out of requests.", "done"),
    Record("R281", "Commits and pull requests made through tools are counted in the session and shown by /status, cost and the SDK's result.", "done"),
    Record("R282", "Sessions carry file-history-snapshot entries and backups in the ecosystem's form, so that other tools' rewind works on them.", "done"),
    Record("R283", "Attribution snapshots are recorded (how many lines of a file are whose) and feed the trailer of commits and why.", "done"),
    Record("R284", "A tool result that was replaced (spilled, micro-compacted) leaves a content replacement entry; on resume it is applied, in foreign sessions too.", "done"),
    Record("R285", "Queue operations of typed prompts (enqueue, dequeue, remove) are durable when the key is pressed and restore the queue after a crash.", "done"),
    Record("R286", "Teams can be created; entries carry team and agent; teammates have a view.", "done"),
    Record("R287", "Workflow runs can be begun; their subagents' transcripts lie in the run's folder.", "diverges: workflows are scripts for the runtime of another program, so clew begins none; the agents of such runs are listed, read and continued in the run's folder, and the doctor names .claude/workflows as not read"),
    Record("R288", "A daemon keeps remote sessions: its main loop starts, supervises and ends them; permission questions travel over the bridge and answers come back exactly once.", "done"),
    Record("R289", "Transports of the CLI: stdin/stdout, WebSocket and server-sent events with cursor and resume; a session ingress with optimistic concurrency (append names the last uuid; 409 is adopted or told).", "done"),
    Record("R290", "One serial uploader: batches in order, one in flight, regrown after a failure, bounded, flushed at exit, never blocking the loop.", "done"),
    Record("R291", "Remote agent tasks: begun on another machine, watched, answered and ended from here.", "done"),
    Record("R292", "Telemetry is opt-in and goes where the user says (OpenTelemetry); nothing leaves otherwise, and a test in an empty network namespace holds that.", "done"),
    Record("R293", "Feature flags: one table with defaults, set by settings or environment, shown by clew config flags, with a kill switch for each risky subsystem; no network.", "done"),
    Record("R294", "Credentials with an expiry are renewed within a session, once for all waiting requests.", "done"),
    Record("R295", "Build and release: reproducible wheels, version, changelog; an update is told and done through the installer on request.", "done"),
    Record("R296", "Key bindings have a table for each platform and terminal family.", "done"),
    Record("R297", "Media that the service refuses is left out, told, not repeated, and the turn goes on in the same run.", "done"),
    Record("R298", "The session's state knows its models, interactions, fallbacks and allowed tools, and shows them to hosts.", "done"),
    Record("R299", "Platform blocks and base64 event payloads are sent and received by the providers that use them (Bedrock).", "done"),
    Record("C1", "Five message types plus control events, and an unknown variant that round-trips", "done"),
    Record("C2", "System prompt = static identity/tool guidance only", "done"),
    Record("C3", "Tool input is parsed at block stop for execution. Partial parsing is for display only and its result is typed as \"preview\", never executable", "done"),
    Record("C4", "Append a tombstone entry; loader hides the target", "done"),
    Record("C5", "Two timers: UI \"waiting\" hint after 20 s", "done"),
    Record("C6", "status in {408,409,429,500,502,503,504,529}, honour x-should-retry and retry-after (seconds or HTTP date), full jitter, default 10 attempts", "done"),
    Record("C7", "One pipeline of fixed order; the validator is asserted, not the order", "done"),
    Record("C8", "Memory files are concatenated, never overridden, in a fixed order; @path imports; AGENTS.md before CLAUDE.md", "done"),
    Record("C9", "Scopes managed > CLI > local > project > user for scalars; permission rules are a union evaluated deny > ask > allow", "done"),
    Record("C10", "Append-only JSONL; derived state lives in a rebuildable index, not in a second truth; an importer for the old JSON form", "done"),
    Record("C11", "Do not persist progress in the transcript. If replay of progress is wanted, a separate <id>.progress.jsonl that may be deleted at any time", "done"),
    Record("C12", "accept both spellings as aliases; own prefix for our variables; telemetry off by default", "done"),
    Record("C13", "all state changes are events; persistence is uniform", "done"),
    Record("C14", "tool results are not meta; kind is derived from content (tool_result block)", "done"),
    Record("C15", "Compaction is a boundary with a kept segment; resume never summarises silently: offer \"as is / from summary\"", "done"),
    Record("C16", "freeze env; settings files are watched; the effective config with provenance is queryable", "done"),
    Record("C17", "decided for compatibility (decision 1): the plain encoded path, over 200 characters cut plus the SDK's hash (transcript-format.md 1.1)", "done"),
    Record("W1", "Two structures: (1) permanent small read-ledger path -> (size, mtime_ns, sha256, ranges read, message uuid)", "done"),
    Record("W2", "Byte-level line splitter for LF, CR, CRLF over any chunk boundary; incremental UTF-8 decoder; WHATWG field rules", "done"),
    Record("W3", "Provider adapters: SSE for the Messages API; AWS eventstream decoder only in a Bedrock adapter", "done"),
    Record("W4", "State machine keyed by block index that tolerates unknown events/deltas, treats error as a mid-stream failure with classification, and has an explicit branch for each …", "done"),
    Record("W5", "34 -> 12)", "done"),
    Record("W6", "One key/signal layer -> cancellation scope (asyncio task group)", "done"),
    Record("W7", "Retry is allowed only before the first completed block", "done"),
    Record("W8", "Use counted tokens first; parse the error text as fallback; clamp thinking budget; at most one shrink, then compact", "done"),
    Record("W9", "UI id = (message uuid, block index) pair, or uuid5(parent, index), for every block always; disk ids never change", "done"),
    Record("W10", "compute unanswered = uses - results; idempotent; run also on load (crash between use and result)", "done"),
    Record("W11", "After normalisation run a total validator with the API's rules (section V) and a repair pass that reports every repair as a diagnostic", "done"),
    Record("W12", "Byte-stable prefix: static system, tools sorted and frozen, dynamic context appended as recorded attachments", "done"),
    Record("W13", "cost = in*p + write5m*1.25p + write1h*2p + read*0.1p + out*q (+ per-use tools, multipliers); decimals, price table with effective dates", "done"),
    Record("W14", "single writer task/thread owns the file; ordered queue; explicit durability points", "done"),
    Record("W15", "expanduser, dedupe by (dev, inode), key (mtime_ns, size, hash), load at session start and at explicit reload", "done"),
    Record("W16", "accumulator keyed by index, delta type table, produces a new frozen message at stop", "done"),
    Record("W17", "perf_counter around the request; separate usage event entry appended to the log", "done"),
    Record("W18", "open union; adapters translate", "done"),
    Record("W19", "anchor on the last response's usage (input + cache + output) and estimate only the tail; count_tokens at decision points", "done"),
    Record("W20", "one user message per tool batch, results in tool_use order", "done"),
    Record("W21", "enforce the strict normal form anyway (Bedrock), validate with the full rule set", "done"),
    Record("W22", "explicit is-empty test; a synthetic field marks synthetic messages, text only for legacy files", "done"),
    Record("W23", "Durability contract: user message and every tool_use are on disk (fdatasync) before side effects", "done"),
    Record("W24", "Unmatched messages stay in place, stable; a permutation of the input loses nothing", "done"),
    Record("W25", "functions of input: is_read_only(input), is_concurrency_safe(input), is_destructive(input)", "done"),
    Record("W26", "official Python MCP SDK or exact spec; per-state time-outs; reconnect with back-off; deferred tool loading; output cap with spill file", "done"),
    Record("W27", "streaming line reader with constant memory, offsets index (rebuildable) so resume reads only the live chain; big blobs out of line", "done"),
    Record("W28", "provenance field (origin) decides, regex only for legacy files", "done"),
    Record("W29", "kernel lock (fcntl/flock, msvcrt on Windows) held for the process lifetime, released by the kernel", "diverges: flock on POSIX; clew does not run on Windows yet"),
    Record("W30", "Resume is free of model calls by default", "done"),
    Record("W31", "fetch to temp, verify superset/prefix relation by uuid, merge, fsync + rename, keep a backup; empty remote never replaces a non-empty local file", "done"),
    Record("W32", "The log is append-only, never rewritten as a whole per save", "done"),
    Record("W33", "tools parameter; deterministic order; deferred loading to keep the prefix small", "done"),
    Record("W34", "order = file position within a writer; chain = parentUuid; timestamps are display only", "done"),
    Record("V1", "Messages carry only documented fields; unknown fields are rejected (\"extra inputs\"). stop_reason, uuid, timestamp never go out", "done"),
    Record("V2", "Same-role neighbours are combined by the first-party API; other endpoints reject them: emit strict alternation, first message user", "done"),
    Record("V3", "Every tool_use of an assistant message is answered in the very next user message, nothing in between", "done"),
    Record("V4", "No empty content arrays, no empty text blocks", "done"),
    Record("V5", "thinking / redacted_thinking blocks of the latest assistant turn are returned byte-identical with their signature, or the whole block set is dropped by a rule", "done"),
    Record("V6", "tool_use.input is always a JSON object; unparseable streamed input is never replayed as tool_use", "done"),
    Record("V7", "message_delta.usage is cumulative; input_tokens excludes cache reads and writes (total input = read + creation + input)", "done"),
    Record("V8", "max_tokens > thinking budget; request body <= 32 MB; image and PDF limits", "done"),
    Record("V9", "Tool set, tool order and system text stay byte-identical between turns unless a change is intended (cache)", "done"),
    Record("V10", "stop_reason handling is total: every known one has its branch, an unknown one ends the turn with a warning", "done"),
    Record("V11", "Stream: ping any time, error after HTTP 200, unknown event and delta types are ignored, not fatal", "done"),
    Record("V12", "After a failure mid-response: retry only if no block was completed; otherwise keep completed blocks, run completed tools, mark incomplete", "done"),
)
# fmt: on

BY_ID = {record.id: record for record in RECORDS}

if __name__ == "__main__":
    sys.exit(main())
