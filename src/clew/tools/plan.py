"""EnterPlanMode and ExitPlanMode: look first, write a plan, and begin when the person has said yes.

The plan is a file of the session's own. While planning it is the one file that may be written.
"""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from clew.config.regular import content
from clew.config.write import replace
from clew.tools.base import (
    Own,
    QuestionKind,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSession,
)

PLAN_MODE = "plan"


class EnterPlanModeInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class EnterPlanMode(Tool[EnterPlanModeInput]):
    """Takes rights away and gives none, so nobody is asked."""

    name = "EnterPlanMode"
    description = "Look first and write a plan"
    prompt = (
        "Goes over to planning: from then on you read and search and change nothing but the plan's "
        "file, until the person has agreed to the plan. Use it before work that is large, or where "
        "several ways are open; not for small or clear changes."
    )
    input_type = EnterPlanModeInput
    is_deferred = True
    search_words = "planning design approach before"

    def is_concurrency_safe(self, given: EnterPlanModeInput) -> bool:
        return False

    def objection(self, given: EnterPlanModeInput, session: ToolSession) -> str:
        is_planning = session.own is not None and session.own.mode == PLAN_MODE
        return "You are planning already." if is_planning else ""

    async def call(self, given: EnterPlanModeInput, ctx: ToolContext) -> ToolResult:
        own = of(ctx.session)
        own.enter_plan()
        return ToolResult(
            content=(
                "Planning. Read and search; change nothing but the plan, which you write into "
                f"{own.plan_file}. When it is whole, call ExitPlanMode to ask the person."
            ),
            tool_use_result={"message": "planning", "filePath": str(own.plan_file)},
            display="planning",
        )


class ExitPlanModeInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plan: Annotated[
        str, Meta(description="The plan in Markdown; left out, the plan's file is the plan")
    ] = ""


class ExitPlanMode(Tool[ExitPlanModeInput]):
    name = "ExitPlanMode"
    description = "Ask the person to agree to the plan"
    prompt = (
        "Shows the person the plan and asks whether to begin. Give the plan here, or write it into "
        "the plan's file before. Say what will be changed, where, in which order, and how it will be "
        "checked. Only while planning; not for questions, and not where nothing is to be changed."
    )
    input_type = ExitPlanModeInput
    is_deferred = True
    search_words = "planning approve finished begin"
    question_kind: QuestionKind = "plan"

    def is_concurrency_safe(self, given: ExitPlanModeInput) -> bool:
        return False

    def objection(self, given: ExitPlanModeInput, session: ToolSession) -> str:
        if session.own is None or session.own.mode != PLAN_MODE:
            return "There is no planning to leave here; the work goes on without this call."
        if not self.body(given, session).strip():
            return f"There is no plan yet: give it here, or write it into {session.own.plan_file}."
        return ""

    def body(self, given: ExitPlanModeInput, session: ToolSession) -> str:
        if given.plan.strip() or session.own is None:
            return given.plan
        try:
            return content(session.own.plan_file).decode("utf-8", "replace")
        except OSError:
            return ""

    def title(self, given: ExitPlanModeInput) -> str:
        return "begin with the plan"

    async def call(self, given: ExitPlanModeInput, ctx: ToolContext) -> ToolResult:
        own = of(ctx.session)
        plan = self.body(given, ctx.session)
        if given.plan.strip():
            keep(own.plan_file, given.plan)
        mode = own.leave_plan()
        return ToolResult(
            content=(
                "The person agreed to the plan; begin. Keep a list of its steps. "
                f"The plan is kept in {own.plan_file}:\n\n{plan}"
            ),
            tool_use_result={"plan": plan, "isAgent": False, "filePath": str(own.plan_file)},
            display=f"agreed; mode {mode}",
        )


def of(session: ToolSession) -> Own:
    if session.own is None:
        raise ToolError("This session has no plan mode.")
    return session.own


def keep(path: Path, plan: str) -> None:
    whole = plan.encode("utf-8", "replace").decode("utf-8")
    replace(path, whole.rstrip("\n") + "\n", mode=0o600)
