"""EnterPlanMode and ExitPlanMode: look first, write a plan, and begin when the person has said yes.

The plan is a file of the session's own. While planning it is the one file that may be written.
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

# AskUserQuestion: questions with answers to choose from; the person's answers come with the permission.


class Option(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    label: Annotated[str, Meta(min_length=1, description="The answer, in one to five words")]
    description: Annotated[str, Meta(description="What choosing it means")] = ""


class QuestionInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    question: Annotated[str, Meta(min_length=1, description="The question, whole")]
    options: Annotated[list[Option], Meta(min_length=2, max_length=8)]
    header: Annotated[str, Meta(description="What it is about, in a word or two")] = ""
    multi_select: Annotated[bool, Meta(description="Whether several answers may be chosen")] = False


class AskUserQuestionInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    questions: Annotated[list[QuestionInput], Meta(min_length=1, max_length=4)]
    # Filled in by whoever asks the person; the model leaves it out.
    answers: dict[str, Any] | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET


class AskUserQuestion(Tool[AskUserQuestionInput]):
    name = "AskUserQuestion"
    description = "Ask the person to choose"
    prompt = (
        "Asks the person one to four questions, each with two to eight answers to choose from; they "
        "may also answer in words of their own. Use it when the answer changes what you do and you "
        "cannot find it out yourself. Put the answer you would take first."
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
            return "Leave answers out: the person gives them."
        texts = [question.question for question in arguments.questions]
        if len(set(texts)) < len(texts):
            return "Two of the questions are the same; each needs words of its own."
        for question in arguments.questions:
            labels = [option.label for option in question.options]
            if len(set(labels)) < len(labels):
                return f"Two answers to {question.question!r} are the same."
        return ""

    async def call(self, arguments: AskUserQuestionInput, ctx: ToolContext) -> ToolOutcome:
        if arguments.answers is UNSET or not arguments.answers:
            raise ToolError("Nobody answered. Decide yourself, say what you chose, and go on.")
        lines = [f"{question}: {spoken(answer)}" for question, answer in arguments.answers.items()]
        questions = to_builtins(arguments.questions)
        annotations = {} if arguments.annotations is UNSET else arguments.annotations
        return ToolOutcome(
            content="The person answered:\n" + "\n".join(lines),
            tool_use_result={
                "questions": questions,
                "answers": arguments.answers,
                "annotations": annotations,
            },
            display="; ".join(map(spoken, arguments.answers.values())),
        )


def spoken(answer: Any) -> str:
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


# Brief: a short message to the person while the work goes on.


MAX_CHARS = 2_000


class BriefInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    message: Annotated[
        str, Meta(min_length=1, max_length=MAX_CHARS, description="What the person should know")
    ]


class Brief(Tool[BriefInput]):
    """Shown by its title as it is called; the result only says so."""

    name = "Brief"
    description = "Tell the person how the work stands"
    prompt = (
        "Shows the person a short message while you go on working: what was found, what comes next, "
        "what takes long. Not for the answer itself, and not for questions."
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
            content="The person sees it. Go on.",
            tool_use_result={"message": arguments.message},
            display="shown",
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

    def is_concurrency_safe(self, arguments: EnterPlanModeInput) -> bool:
        return False

    def objection(self, arguments: EnterPlanModeInput, session: ToolSession) -> str:
        is_planning = session.own is not None and session.own.mode == PLAN_MODE
        return "You are planning already." if is_planning else ""

    async def call(self, arguments: EnterPlanModeInput, ctx: ToolContext) -> ToolOutcome:
        own = of(ctx.session)
        own.enter_plan()
        return ToolOutcome(
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

    def is_concurrency_safe(self, arguments: ExitPlanModeInput) -> bool:
        return False

    def objection(self, arguments: ExitPlanModeInput, session: ToolSession) -> str:
        if session.own is None or session.own.mode != PLAN_MODE:
            return "There is no planning to leave here; the work goes on without this call."
        if not self.body(arguments, session).strip():
            return f"There is no plan yet: give it here, or write it into {session.own.plan_file}."
        return ""

    def body(self, arguments: ExitPlanModeInput, session: ToolSession) -> str:
        if arguments.plan.strip() or session.own is None:
            return arguments.plan
        try:
            return read_content(session.own.plan_file).decode("utf-8", "replace")
        except OSError:
            return ""

    def title(self, arguments: ExitPlanModeInput) -> str:
        return "begin with the plan"

    async def call(self, arguments: ExitPlanModeInput, ctx: ToolContext) -> ToolOutcome:
        own = of(ctx.session)
        plan = self.body(arguments, ctx.session)
        if arguments.plan.strip():
            keep(own.plan_file, arguments.plan)
        mode = own.leave_plan()
        return ToolOutcome(
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
    text = plan.encode("utf-8", "replace").decode("utf-8")
    replace(path, text.rstrip("\n") + "\n", mode=0o600)


# TodoWrite: the model's list of what is to be done, kept by the session.


Status = Literal["pending", "in_progress", "completed"]


class Todo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    content: Annotated[str, Meta(min_length=1, description="What is to be done: Run the tests")]
    status: Status
    active_form: Annotated[
        str, Meta(min_length=1, description="The same while it is being done: Running the tests")
    ]


class TodoWriteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    todos: Annotated[list[Todo], Meta(description="The whole list; it replaces the one before")]


class TodoWrite(Tool[TodoWriteInput]):
    """Touches nothing but the session, so it counts as read-only; two at once would race."""

    name = "TodoWrite"
    description = "Keep a list of the steps of the task at hand"
    prompt = (
        "Keeps a list of the steps of the task, which the user sees. Use it for work of three or "
        "more steps; leave it for small things. Send the whole list each time. One step at a time "
        "is in_progress; mark a step completed as soon as it is done, and only when it is."
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
        # A list that is done is done with.
        ctx.session.todos = (
            [] if all(todo.status == "completed" for todo in arguments.todos) else new
        )
        return ToolOutcome(
            content=f"The list is kept: {self.title(arguments)}.",
            tool_use_result={"oldTodos": old, "newTodos": new},
            display=self.title(arguments),
        )
