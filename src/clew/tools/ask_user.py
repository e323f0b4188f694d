"""AskUserQuestion: questions with answers to choose from; the person's answers come with the permission."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from clew.tools.base import QuestionKind, Tool, ToolContext, ToolError, ToolResult, ToolSession


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

    def is_read_only(self, given: AskUserQuestionInput) -> bool:
        return True

    def title(self, given: AskUserQuestionInput) -> str:
        return given.questions[0].question

    def objection(self, given: AskUserQuestionInput, session: ToolSession) -> str:
        if given.answers is not UNSET:
            return "Leave answers out: the person gives them."
        asked = [question.question for question in given.questions]
        if len(set(asked)) < len(asked):
            return "Two of the questions are the same; each needs words of its own."
        for question in given.questions:
            labels = [option.label for option in question.options]
            if len(set(labels)) < len(labels):
                return f"Two answers to {question.question!r} are the same."
        return ""

    async def call(self, given: AskUserQuestionInput, ctx: ToolContext) -> ToolResult:
        if given.answers is UNSET or not given.answers:
            raise ToolError("Nobody answered. Decide yourself, say what you chose, and go on.")
        lines = [f"{question}: {spoken(answer)}" for question, answer in given.answers.items()]
        questions = to_builtins(given.questions)
        annotations = {} if given.annotations is UNSET else given.annotations
        return ToolResult(
            content="The person answered:\n" + "\n".join(lines),
            tool_use_result={
                "questions": questions,
                "answers": given.answers,
                "annotations": annotations,
            },
            display="; ".join(map(spoken, given.answers.values())),
        )


def spoken(answer: Any) -> str:
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
