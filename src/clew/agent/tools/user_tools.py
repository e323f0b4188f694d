"""AskUserQuestion, Brief, the plan mode tools and TodoWrite: tools that address the user.

In plan mode the model explores and writes a plan to a file of the session; it begins the work once
the user has approved the plan. Until then, it may write only that file.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from clew.agent.tools.base import (
    Own,
    QuestionKind,
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
    ToolSession,
)
from clew.system.files import read_content, replace

# AskUserQuestion: multiple-choice questions; the answers arrive with the permission decision.


class Option(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    label: Annotated[str, Meta(min_length=1, description="The answer, in one to five words")]
    description: Annotated[str, Meta(description="What choosing it means")] = ""


class QuestionInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    question: Annotated[str, Meta(min_length=1, description="The full question")]
    options: Annotated[list[Option], Meta(min_length=2, max_length=8)]
    header: Annotated[str, Meta(description="Topic in a word or two")] = ""
    multi_select: Annotated[bool, Meta(description="Allow several answers")] = False


class AskUserQuestionInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    questions: Annotated[list[QuestionInput], Meta(min_length=1, max_length=4)]
    # Filled in by the front end or host that asks the user; the model omits it.
    answers: dict[str, Any] | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET


class AskUserQuestion(Tool[AskUserQuestionInput]):
    name = "AskUserQuestion"
    description = "Ask the user to choose"
    prompt = (
        "Ask the user one to four questions, each with two to eight answers to choose from; the "
        "user may also type another answer. Use it when the answer changes what you do and you "
        "can't find it out yourself. Put your recommended answer first."
    )
    input_type = AskUserQuestionInput
    question_kind: QuestionKind = "choices"
    hidden_fields = ("answers", "annotations")

    def is_read_only(self, arguments: AskUserQuestionInput) -> bool:
        return True

    def title(self, arguments: AskUserQuestionInput) -> str:
        return arguments.questions[0].question

    def objection(self, arguments: AskUserQuestionInput, session: ToolSession) -> str:
        if arguments.answers is not UNSET:
            return "Leave out answers: the user provides them."
        texts = [question.question for question in arguments.questions]
        if len(set(texts)) < len(texts):
            return "Two of the questions are the same; each must be different."
        for question in arguments.questions:
            labels = [option.label for option in question.options]
            if len(set(labels)) < len(labels):
                return f"Two answers to {question.question!r} are the same."
        return ""

    async def call(self, arguments: AskUserQuestionInput, ctx: ToolContext) -> ToolOutcome:
        if arguments.answers is UNSET or not arguments.answers:
            raise ToolError(
                "The user did not answer.", "Decide yourself, say what you chose, and continue."
            )
        lines = [
            f"{question}: {format_answer(answer)}" for question, answer in arguments.answers.items()
        ]
        questions = to_builtins(arguments.questions)
        annotations = {} if arguments.annotations is UNSET else arguments.annotations
        return ToolOutcome(
            content="The user answered:\n" + "\n".join(lines),
            tool_use_result={
                "questions": questions,
                "answers": arguments.answers,
                "annotations": annotations,
            },
            display="; ".join(map(format_answer, arguments.answers.values())),
        )


def format_answer(answer: Any) -> str:
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


# Brief: a short message to the user while the work continues.


MAX_CHARS = 2_000


class BriefInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    message: Annotated[
        str, Meta(min_length=1, max_length=MAX_CHARS, description="What the user should know")
    ]


class Brief(Tool[BriefInput]):
    """Shows the user a short message: the call's title. The result only confirms it."""

    name = "Brief"
    description = "Send the user a progress message"
    prompt = (
        "Show the user a short message while you continue: what you found, what comes next, what"
        " takes long. Not for the answer itself or for questions."
    )
    input_type = BriefInput
    is_deferred = True
    search_words = "status message progress update notify user"

    def is_read_only(self, arguments: BriefInput) -> bool:
        return True

    def title(self, arguments: BriefInput) -> str:
        return arguments.message

    async def call(self, arguments: BriefInput, ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome(
            content="The user sees the message. Continue.",
            tool_use_result={"message": arguments.message},
            display="shown",
        )


PLAN_MODE = "plan"


class EnterPlanModeInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class EnterPlanMode(Tool[EnterPlanModeInput]):
    """The tool that enters plan mode. It only restricts permissions, so it needs no approval."""

    name = "EnterPlanMode"
    description = "Explore and write a plan first"
    prompt = (
        "Switch to plan mode: you read, search and change nothing except the plan file, until "
        "the user approves the plan. Use it before large work or if there are several "
        "approaches; not for small or clear changes."
    )
    input_type = EnterPlanModeInput
    is_deferred = True
    search_words = "planning design approach before"

    def is_concurrency_safe(self, arguments: EnterPlanModeInput) -> bool:
        return False

    def objection(self, arguments: EnterPlanModeInput, session: ToolSession) -> str:
        is_planning = session.own is not None and session.own.mode == PLAN_MODE
        return "You are already in plan mode." if is_planning else ""

    async def call(self, arguments: EnterPlanModeInput, ctx: ToolContext) -> ToolOutcome:
        own = of(ctx.session)
        own.enter_plan()
        return ToolOutcome(
            content=(
                "Plan mode is on. Read and search, and change nothing except the plan file "
                f"{own.plan_file}. When the plan is complete, call ExitPlanMode to ask the user "
                "for approval."
            ),
            tool_use_result={"message": "planning", "filePath": str(own.plan_file)},
            display="planning",
        )


class ExitPlanModeInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plan: Annotated[str, Meta(description="The plan in Markdown; default: the plan file")] = ""


class ExitPlanMode(Tool[ExitPlanModeInput]):
    name = "ExitPlanMode"
    description = "Ask the user to approve the plan"
    prompt = (
        "Show the user the plan and ask for approval to begin. Pass the plan here, or write it "
        "to the plan file first. Say what changes, where, in which order, and how it will be "
        "checked. Only in plan mode; not for questions, and not if nothing changes."
    )
    input_type = ExitPlanModeInput
    is_deferred = True
    search_words = "planning approve finished begin"
    question_kind: QuestionKind = "plan"

    def is_concurrency_safe(self, arguments: ExitPlanModeInput) -> bool:
        return False

    def objection(self, arguments: ExitPlanModeInput, session: ToolSession) -> str:
        if session.own is None or session.own.mode != PLAN_MODE:
            return "Plan mode is not on; continue without this call."
        if not self.body(arguments, session).strip():
            return f"The plan is empty: pass it here, or write it to {session.own.plan_file}."
        return ""

    def body(self, arguments: ExitPlanModeInput, session: ToolSession) -> str:
        if arguments.plan.strip() or session.own is None:
            return arguments.plan
        try:
            return read_content(session.own.plan_file).decode("utf-8", "replace")
        except OSError:
            return ""

    def title(self, arguments: ExitPlanModeInput) -> str:
        return "carry out the plan"

    async def call(self, arguments: ExitPlanModeInput, ctx: ToolContext) -> ToolOutcome:
        own = of(ctx.session)
        plan = self.body(arguments, ctx.session)
        if arguments.plan.strip():
            keep(own.plan_file, arguments.plan)
        mode = own.leave_plan()
        return ToolOutcome(
            content=(
                "The user approved the plan; begin. Keep a list of its steps. The plan is saved "
                f"in {own.plan_file}:\n\n{plan}"
            ),
            tool_use_result={"plan": plan, "isAgent": False, "filePath": str(own.plan_file)},
            display=f"approved; mode {mode}",
        )


def of(session: ToolSession) -> Own:
    if session.own is None:
        raise ToolError("This session has no plan mode.")
    return session.own


def keep(path: Path, plan: str) -> None:
    text = plan.encode("utf-8", "replace").decode("utf-8")
    replace(path, text.rstrip("\n") + "\n", mode=0o600)


# TodoWrite: the model's list of steps, stored in the session.


Status = Literal["pending", "in_progress", "completed"]


class Todo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    content: Annotated[str, Meta(min_length=1, description="The step: Run the tests")]
    status: Status
    active_form: Annotated[
        str, Meta(min_length=1, description="The step while in progress: Running the tests")
    ]


class TodoWriteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    todos: Annotated[list[Todo], Meta(description="The full list; it replaces the old one")]


class TodoWrite(Tool[TodoWriteInput]):
    """Replaces the list of steps.

    A call changes only the session, so it is treated as read-only. Concurrent calls would race, so
    they run one at a time.
    """

    name = "TodoWrite"
    description = "Keep a list of the current task's steps"
    prompt = (
        "Keep a list of the task's steps, which the user sees. Use it for work with three or "
        "more steps, not for small things. Send the full list each time. Keep one step "
        "in_progress; mark a step completed as soon as it is done, and not before."
    )
    input_type = TodoWriteInput

    def is_read_only(self, arguments: TodoWriteInput) -> bool:
        return True

    def is_concurrency_safe(self, arguments: TodoWriteInput) -> bool:
        return False

    def title(self, arguments: TodoWriteInput) -> str:
        done = sum(todo.status == "completed" for todo in arguments.todos)
        return f"{done} of {len(arguments.todos)} done"

    async def call(self, arguments: TodoWriteInput, ctx: ToolContext) -> ToolOutcome:
        old, new = ctx.session.todos, to_builtins(arguments.todos)
        # A completed list is cleared.
        ctx.session.todos = (
            [] if all(todo.status == "completed" for todo in arguments.todos) else new
        )
        return ToolOutcome(
            content=f"List updated: {self.title(arguments)}.",
            tool_use_result={"oldTodos": old, "newTodos": new},
            display=self.title(arguments),
        )
