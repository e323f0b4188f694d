"""Run the calls of one response while it is still streaming.

Each call runs once and has one result. The module owns the task group of the calls. A call is saved
durably in the transcript before it is judged or run. Concurrency-safe calls run together; any other
call waits for all calls before it, and later calls wait for it. Only a cancellation raises: denials
and failures are results.

Decision: docs/decisions/004-turn-loop.md
"""

import asyncio
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.agent.deps import Deps, Emit, Granted, Question, Refused, Verdict, ensure_saved
from clew.agent.events import Noticed, ToolFinished, ToolProgressed, ToolStarted
from clew.agent.hooked import (
    BY_HOOK,
    DEFERRED,
    DEFERRED_KIND,
    PUT_OFF,
    PUT_OFF_BY_HOST,
    describe_end,
    fire_event,
    fire_for,
    make_hook_entries,
    replace_result,
)
from clew.agent.hooks.outcome import HookOutcome as Said
from clew.agent.hooks.outcome import with_hooks
from clew.agent.shipping import count_shipped, find_pull_request
from clew.agent.tools.base import STRUCTURED_OUTPUT, ToolOutcome
from clew.agent.toolset import decide
from clew.agent.transitions import Repetition
from clew.core.json_object import Json
from clew.core.ledger.state import ToolTimed, todos_of
from clew.core.ledger.totals import count_changed_lines
from clew.core.messages import factories
from clew.core.messages.text import (
    CANCELLED,
    INTERRUPTED_WHILE_RUNNING,
    describe_reviewer_rejection,
    wrap_in_tag,
)
from clew.permissions.decision import (
    Allow,
    Ask,
    Decision,
    Deny,
    Finding,
    NeedsReview,
    describe_reason,
)
from clew.permissions.request import PermissionRequest

WITHOUT_WALL = "run the command without the sandbox?"

# The answer to calls after one that stopped the turn: no one denied them.
NOT_ASKED = Refused(words=CANCELLED)
MAY_RETRY = " The user's hook allows you to try this call again."
NOT_PERMITTED = "This call is not permitted and did not run: {why}."
EDITED = (
    "The user changed the proposed text before approving it: read the file before you continue."
)


class PendingCall:
    """The state of a tool_use block until its result exists."""

    def __init__(self, bound: BoundCall, *, source_uuid: str) -> None:
        self.bound = bound
        self.source_uuid = source_uuid
        # Taken from the call as first bound: a change of its input doesn't change which calls it
        # waits for.
        self.is_safe = bound.is_concurrency_safe
        self.is_running = False
        self.is_answered = False
        # The ID of the result that reports a deferral, until the call is decided. If the process
        # ends before that, the call is judged again when the session continues.
        self.deferral: str | None = None
        # The ID of such a result that is only written ahead, while a question is open.
        self.ahead: str | None = None
        # Whether the user changed the input while approving the call.
        self.is_edited = False
        # Entries from hooks that follow the call's result.
        self.beside: list[Json] = []
        # Additional fields of the call's result entry.
        self.noted: Json = {}
        self.done = asyncio.Event()

    @property
    def block(self) -> Json:
        return self.bound.block


class ToolExecutor:
    """Runs the calls of one response.

    `results` contains their result messages in the order in which the calls ended.
    """

    def __init__(self, deps: Deps, emit: Emit, repetition: Repetition) -> None:
        self._deps = deps
        self._emit = emit
        self._repetition = repetition
        self._group = asyncio.TaskGroup()
        self._calls: list[PendingCall] = []
        self._slots = asyncio.Semaphore(deps.limits.max_parallel)
        self._asking = asyncio.Lock()
        self._held: list[Json] | None = []
        self.results: list[Json] = []
        # Whether a denial ends the turn, and whether the user or host gave it.
        self.is_stopped = self.is_stopped_by_user = False
        # The reason that a hook gave for ending the turn after these calls.
        self.halt: str | None = None
        # Whether a call gave the result of the run, which ends the turn.
        self.has_answer = False

    async def __aenter__(self) -> "ToolExecutor":
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._group.__aexit__(kind, error, trace)

    async def start(
        self, block: Json, answer: list[Json], after: str | None, *, deferral: str | None = None
    ) -> None:
        """Start a call.

        `answer` contains the entries of the response that no earlier call has recorded; the entry
        of this call is the last. `after` is the last entry that an earlier call recorded.
        `deferral` is the ID of the result to replace if the call was deferred before.
        """
        deps = self._deps
        deps.story.recorder.tool_started(block["id"], answer, after=after)
        bound = deps.tools.bind(deps.tools.meant(block))
        call = PendingCall(bound, source_uuid=answer[-1]["uuid"])
        call.deferral = deferral
        before = [c for c in self._calls if not (c.is_safe and call.is_safe)]
        self._calls.append(call)
        if any(earlier.ahead for earlier in before):
            await self._keep_calls()  # A question is open.
        self._group.create_task(self._follow(call, before))

    async def refuse(self, block: Json, source_uuid: str, words: str) -> None:
        """Give an error result to a call that must not run at all."""
        call = PendingCall(BoundCall(block=block), source_uuid=source_uuid)
        await self._refuse(call, wrap_in_tag("tool_use_error", words))

    def release(self) -> None:
        """Add the held results to the conversation, because the response is now part of it."""
        answers, self._held = self._held, None
        if answers:
            self._deps.story.answer(answers)

    # -- one call

    async def _follow(self, call: PendingCall, before: list[PendingCall]) -> None:
        try:
            for earlier in before:
                await earlier.done.wait()
            async with self._slots:
                await self._judged(call)
        except asyncio.CancelledError:
            # A call that was deferred before stays deferred until it is decided.
            if not call.is_answered and call.deferral is None:
                self._note(call, INTERRUPTED_WHILE_RUNNING if call.is_running else CANCELLED)
            raise
        finally:
            call.done.set()

    async def _judged(self, call: PendingCall) -> None:
        """Decide whether a call may run; then run it, or answer it with a denial."""
        await ensure_saved(self._deps, self._emit)
        self._repetition.note(call.block)
        call.bound = await self._deps.tools.credited(call.bound, call.source_uuid)
        unusable = self._deps.tools.unusable(call.bound)
        if unusable is not None:
            await self._finish(call, unusable)
            return
        outcome = await self._before(call)
        unusable = self._deps.tools.unusable(call.bound)
        if unusable is not None:
            await self._finish(call, unusable)
            return
        if outcome.permission == "deny":
            words = BY_HOOK.format(event="PreToolUse", tool=call.block["name"], why=outcome.reason)
            await self._deny(call, words, "permission-rule")
            return
        if outcome.permission == "defer" and self._deps.approval.can_defer:
            await self._defer(call, PUT_OFF)
            return
        decision, is_confined = await self._decision(call.bound, outcome)
        if isinstance(decision, Ask | NeedsReview):
            doomed = await self._deps.tools.doomed(
                call.bound, lambda path: self._may_look(path, call.bound.places.get(path))
            )
            if doomed is not None:
                await self._finish(call, doomed)
                return
        is_reviewed = isinstance(decision, NeedsReview)
        if isinstance(decision, NeedsReview):
            decision = await self._review(call, decision)
        match decision:
            case Allow():
                await self._run(call, is_confined=is_confined)
            case Deny():
                why = describe_reason(decision)
                words = (
                    describe_reviewer_rejection(why)
                    if is_reviewed
                    else NOT_PERMITTED.format(why=why)
                )
                if is_reviewed:
                    words += await self._told_of_denial(call, why)
                await self._deny(call, words, "permission-rule")
            case _:
                await self._ask(call, decision, outcome, is_confined=is_confined)

    def _may_look(self, path: str, place: str | None) -> bool:
        """Return whether a file's content may be revealed without asking the user.

        `place` is the real path that the file had when the call was judged.
        """
        look = BoundCall(block={"name": "Read", "input": {"file_path": path}})
        decision = self._deps.approval.judge(look)
        return isinstance(decision, Allow) and look.places.get(path) == place

    async def _review(self, call: PendingCall, needed: NeedsReview) -> Decision:
        """Ask the reviewer (mode auto); record and report every decision."""
        reviewed = await self._deps.approval.review(call.bound, needed)
        call.noted["permissionReview"] = reviewed.record
        note = f"{call.bound.title}: review: {reviewed.record['verdict']}: {reviewed.record['why']}"
        await self._emit(Noticed(messages=(note,)))
        return reviewed.decision

    async def _told_of_denial(self, call: PendingCall, why: str) -> str:
        """Notify hooks of a reviewer's denial.

        Hooks may allow a retry but can't reverse the denial.
        """
        outcome = await fire_for(self._deps, self._emit, "PermissionDenied", call.bound, reason=why)
        self._take(call, outcome)
        if not outcome.may_retry:
            return ""
        self._repetition.pardon(call.block)
        return MAY_RETRY

    async def _before(self, call: PendingCall) -> Said:
        """Run PreToolUse hooks.

        They may deny the call or change its input before the rules apply.
        """
        outcome = await fire_for(self._deps, self._emit, "PreToolUse", call.bound)
        self._take(call, outcome)
        if outcome.halt is not None and outcome.permission != "deny":
            return replace(
                outcome, permission="deny", reason=outcome.halt or "a hook stopped the turn"
            )
        if outcome.input is not None:
            call.bound = call.bound.with_input(outcome.input)
        return outcome

    def _take(self, call: PendingCall, outcome: Said) -> None:
        call.beside += make_hook_entries(self._deps, outcome)
        if self.halt is None:
            self.halt = outcome.halt

    async def _decision(self, call: BoundCall, outcome: Said) -> tuple[Decision, bool]:
        """Return the decision of the rules, and whether the call runs in the read-only sandbox.

        A call that the rules allow still needs approval if it is repeated too often.
        """
        deps = self._deps
        decision, is_confined = await decide(
            deps.tools, call, lambda call: with_hooks(deps.approval.judge(call), outcome)
        )
        again = self._repetition.question
        if isinstance(decision, Allow) and again:
            return Ask(findings=(Finding(subject=call.title, verdict="ask", reason=again),)), False
        return decision, is_confined

    async def _ask(
        self, call: PendingCall, decision: Decision, outcome: Said, *, is_confined: bool
    ) -> None:
        """Ask the user, one question at a time, and act on the answer.

        After a rejection that ends the turn, no further questions are asked.
        """
        if not self.is_stopped:
            await self._keep_calls()
        waits = self._asking.locked()
        async with self._asking:
            # The answer to the previous question may cover this call too.
            now = decision
            if waits:
                now, is_confined = await self._decision(call.bound, outcome)
            verdict = await self._verdict(call, now)
            self._note_stop(verdict)
        match verdict:
            case Granted():
                if verdict.input is not None and verdict.input != call.block["input"]:
                    call.bound = call.bound.with_input(verdict.input)
                    call.is_edited = verdict.is_edited
                    # The approval was given for a different call. It does not override what denies
                    # this one, and a denied file remains hidden from it.
                    again, confined = await self._decision(call.bound, outcome)
                    if isinstance(again, Deny):
                        words = NOT_PERMITTED.format(why=describe_reason(again))
                        await self._deny(call, words, "permission-rule")
                        return
                    is_confined = confined and isinstance(again, Ask)
                await self._run(call, is_confined=is_confined)
            case Refused(is_deferred=True) if self._deps.approval.can_defer:
                await self._defer(call, PUT_OFF_BY_HOST)
            case Refused() if verdict is NOT_ASKED:
                await self._refuse(call, verdict.words)
            case Refused():
                kind = "user-rejected" if verdict.by_person else "permission-rule"
                await self._deny(call, verdict.words, kind)

    def _note_stop(self, verdict: Verdict) -> None:
        """Note whether a verdict ends the turn, and whether the verdict is the user's own."""
        if isinstance(verdict, Refused) and verdict.stop:
            self.is_stopped = True
            self.is_stopped_by_user |= verdict.by_person

    async def _defer(self, call: PendingCall, why: str) -> None:
        """Defer a call until the session continues, and end the turn."""
        self.halt = self.halt or why.format(tool=call.block["name"])
        await self._deny(call, DEFERRED, DEFERRED_KIND)

    async def _verdict(self, call: PendingCall, decision: Decision) -> Verdict:
        if self.is_stopped:
            return NOT_ASKED
        match decision:
            case Allow():
                return Granted()
            case Deny():
                return Refused(
                    words=NOT_PERMITTED.format(why=describe_reason(decision)), by_person=False
                )
        verdict = await self._answer(call, decision)
        if isinstance(verdict, Granted):
            self._repetition.forgive()
        return verdict

    async def _answer(self, call: PendingCall, decision: Decision) -> Verdict:
        """Ask the hooks and, if none answers, the user; return the answer.

        Notification hooks run if the user does not answer for some time.
        """
        outcome = await fire_for(
            self._deps,
            self._emit,
            "PermissionRequest",
            call.bound,
            permission_suggestions=self._suggest(call, decision),
        )
        self._take(call, outcome)
        if outcome.answer is not None:
            return await self._by_hook(call, outcome.answer)
        kind, body = self._deps.tools.question(call.bound)
        question = Question(
            kind=kind,
            body=body,
            block=call.bound.copy_block(),
            line=call.bound.line,
            title=call.bound.title,
            decision=decision,
            why=describe_reason(decision),
            folder=self._deps.surroundings.shell_folder(),
        )
        async with asyncio.TaskGroup() as group:
            notice = group.create_task(self._tell_of(question))
            verdict = await self._deps.approval.ask(question)
            notice.cancel()
        return verdict

    def _suggest(self, call: PendingCall, decision: Decision) -> list[Json]:
        """Return permission updates for a hook to choose from, if there is one."""
        if not self._deps.hooks.hears("PermissionRequest"):
            return []
        from clew.permissions.suggest import make_suggestions

        bound = call.bound
        request = PermissionRequest(tool=bound.name, input=bound.block["input"], line=bound.line)
        return make_suggestions(request, decision)

    async def _by_hook(self, call: PendingCall, answer: Json) -> Verdict:
        """Apply a hook's answer. An approval does not override a deny rule."""
        if answer["behavior"] == "deny":
            words = answer.get("message") or "no reason given"
            return Refused(
                words=BY_HOOK.format(event="PermissionRequest", tool=call.block["name"], why=words),
                stop=bool(answer.get("interrupt")),
                by_person=False,
            )
        new = answer.get("updatedInput")
        if new is not None:
            decision = self._deps.approval.judge(call.bound.with_input(new))
            if isinstance(decision, Deny):
                return Refused(
                    words=NOT_PERMITTED.format(why=describe_reason(decision)), by_person=False
                )
        error = self._deps.approval.update_permissions(answer.get("updatedPermissions") or [])
        if error:
            await self._emit(Noticed(messages=(f"updatedPermissions: {error}",)))
        return Granted(input=new)

    async def _tell_of(self, question: Question) -> None:
        await asyncio.sleep(self._deps.approval.notify_after_s)
        await fire_event(
            self._deps,
            self._emit,
            "Notification",
            message=f"clew needs your permission: {question.title}",
            title="Permission needed",
            notification_type="permission_prompt",
        )

    async def _keep_calls(self) -> None:
        """Write ahead that calls were deferred, in case the process ends while a question is open.

        This applies to all calls that have not begun, because they wait for the question, too.
        """
        if not self._deps.approval.keeps_questions:
            return
        for call in self._calls:
            if call.is_running or call.is_answered or call.deferral or call.ahead:
                continue
            entry = self._make_result(
                call, DEFERRED, toolDenialKind=DEFERRED_KIND, toolDenialBeforeRun=True
            )
            self._deps.story.recorder.tool_finished(call.block["id"], entry)
            call.ahead = entry["uuid"]
        await ensure_saved(self._deps, self._emit)

    def _withdraw_deferral(self, call: PendingCall) -> bool:
        """Withdraw the result that reports a deferral. Return whether there was one."""
        deferral, ahead = call.deferral, call.ahead
        call.deferral = call.ahead = None
        if deferral is not None:
            self._deps.story.withdraw([deferral])
        if ahead is not None:
            self._deps.story.recorder.withdraw([ahead])
        return deferral is not None or ahead is not None

    async def _run(self, call: PendingCall, *, is_confined: bool) -> None:
        if self._withdraw_deferral(call):
            await ensure_saved(self._deps, self._emit)  # Otherwise, the call could run twice.
        call.is_running = True
        if self._repetition.take_pardon(call.block):
            self._note_retry(call)
        await self._emit(ToolStarted(block=call.block, title=call.bound.title))

        async def progress(data: Any) -> None:
            await self._emit(ToolProgressed(tool_use_id=call.block["id"], data=data))

        session, begin_s = self._deps.spending, self._deps.clock.monotonic_s()
        began_in = self._deps.surroundings.shell_folder()
        try:
            outcome = await self._deps.tools.run(
                call.bound,
                message_uuid=call.source_uuid,
                progress=progress,
                is_confined=is_confined,
            )
            if outcome.blocked and await self._may_leave_wall(call, outcome.blocked):
                outcome = await self._deps.tools.run(
                    call.bound, message_uuid=call.source_uuid, progress=progress
                )
        finally:
            duration_ms = (self._deps.clock.monotonic_s() - begin_s) * 1000
            session.change(ToolTimed(duration_ms=duration_ms))
        if call.is_edited and isinstance(outcome.content, str) and not outcome.is_error:
            raw = outcome.tool_use_result
            outcome = replace(
                outcome,
                content=f"{outcome.content} {EDITED}",
                tool_use_result=raw | {"userModified": True} if isinstance(raw, dict) else raw,
            )
        self._account(call.bound, outcome)
        event, fields = describe_end(outcome, duration_ms)
        try:
            hook_outcome = await fire_for(self._deps, self._emit, event, call.bound, **fields)
            if self._deps.surroundings.shell_folder() != began_in:
                moved = {"old_cwd": began_in, "new_cwd": self._deps.surroundings.shell_folder()}
                self._take(call, await fire_event(self._deps, self._emit, "CwdChanged", **moved))
        except asyncio.CancelledError:
            # The tool has done its work, whether or not the hooks run.
            self._note(
                call, outcome.content, is_error=outcome.is_error, raw=outcome.tool_use_result
            )
            raise
        self._take(call, hook_outcome)
        await self._finish(call, outcome, content=replace_result(call.block, outcome, hook_outcome))

    def _note_retry(self, call: PendingCall) -> None:
        """Record that a previously denied call is running; the entry follows its result."""
        command = call.block["input"].get("command")
        call.beside.append(
            factories.make_system(
                "permission_retry",
                f"Allowed: {call.bound.title}",
                uuid=self._deps.clock.new_id(),
                at=self._deps.clock.now(),
                commands=[command] if isinstance(command, str) else [],
                toolUseID=call.block["id"],
            )
        )

    async def _may_leave_wall(self, call: PendingCall, blocked: str) -> bool:
        """Ask the user whether a command that the read-only sandbox blocked may run without it."""
        finding = Finding(
            subject=call.bound.title,
            verdict="ask",
            reason=f"the read-only sandbox blocked {blocked}; {WITHOUT_WALL}",
            nature="guard",
            is_of_line=True,
        )
        decision = self._deps.approval.apply_mode(finding)
        if not isinstance(decision, Ask):
            return False
        async with self._asking:
            verdict = await self._verdict(call, decision)
            self._note_stop(verdict)
        return isinstance(verdict, Granted)

    def _account(self, call: BoundCall, outcome: ToolOutcome) -> None:
        """Update the session's statistics with a call's changes to files, todos and commits."""
        if outcome.is_error:
            return
        for read in (count_changed_lines, todos_of):
            changed = read(outcome.tool_use_result)
            if changed is not None:
                self._deps.spending.change(changed)
        shipped = count_shipped(call, outcome.content)
        if shipped is not None:
            self._deps.spending.change(shipped)
            link = find_pull_request(outcome.content) if shipped.pull_requests else None
            if link is not None:
                self._deps.story.recorder.pr_link(**link)

    async def _finish(
        self, call: PendingCall, outcome: ToolOutcome, *, content: Any = None
    ) -> None:
        entry = self._note(
            call,
            outcome.content if content is None else content,
            is_error=outcome.is_error,
            raw=outcome.tool_use_result,
            **({} if outcome.mcp_meta is None else {"mcpMeta": outcome.mcp_meta}),
        )
        self.has_answer |= call.block["name"] == STRUCTURED_OUTPUT and not outcome.is_error
        await self._emit(
            ToolFinished(
                block=call.block, entry=entry, is_error=outcome.is_error, display=outcome.display
            )
        )

    async def _deny(self, call: PendingCall, words: str, kind: str) -> None:
        await self._refuse(call, words, toolDenialKind=kind, toolDenialBeforeRun=True)

    async def _refuse(self, call: PendingCall, words: str, **fields: Any) -> None:
        """Give an error result to a call that did not run."""
        entry = self._note(call, words, **fields)
        display = words.split("\n", 1)[0]
        await self._emit(
            ToolFinished(block=call.block, entry=entry, is_error=True, display=display)
        )

    def _note(
        self,
        call: PendingCall,
        content: Any,
        *,
        is_error: bool = True,
        **fields: Any,
    ) -> Json:
        """Add the result to the conversation, or hold it until its response is added."""
        deps = self._deps
        entry = self._make_result(call, content, is_error=is_error, **fields)
        call.is_answered = True
        self._withdraw_deferral(call)
        if call.block["name"] == STRUCTURED_OUTPUT:
            self._repetition.failed_answers += is_error
        self.results.append(entry)
        if self._held is None:
            deps.story.answer([entry, *call.beside])
        else:
            deps.story.recorder.tool_finished(call.block["id"], entry)
            self._held += [entry, *call.beside]
        return entry

    def _make_result(
        self,
        call: PendingCall,
        content: Any,
        *,
        is_error: bool = True,
        raw: Any = None,
        **fields: Any,
    ) -> Json:
        result = f"Error: {content}" if is_error and raw is None else raw
        return (
            call.noted
            | fields
            | factories.make_tool_answer(
                call.block["id"],
                content,
                uuid=self._deps.clock.new_id(),
                at=self._deps.clock.now(),
                source_uuid=call.source_uuid,
                raw=result,
                is_error=is_error,
            )
        )
