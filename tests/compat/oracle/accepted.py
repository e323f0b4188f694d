"""The accepted differences: for each trial, the lines that differ, by the case that explains them.

A case is a row of the table "Differences from Claude Code" in docs/extending/compatibility.md, or
one of `SMALL`, which few hosts notice. "-" is the reference client, "+" is clew. A line that no
longer differs fails the trial, and a case that no trial needs fails `test_accepted.py`.
"""

# case -> reason
SMALL = {
    "`background_tasks_changed` frames": "clew sends one only if a task began or ended",
    "`errors` of a failed result": "clew says why in every failed result, not only in some kinds",
    "`permission_denials` after an interrupt": "a call that was never answered was not denied",
    "`permission_denied` frames": "clew sends one for every denial without a question",
    "`result` of a turn that a hook ended": "clew gives the last text of the turn, or the reason of the hook",
    "`status` frames of a compaction": "clew says that it tries to compact before it fails",
    "`stop_reason` of an error": "clew gives the reason of the last response of the service",
    "`terminal_reason` of a command": "clew names one in every result",
    "a change of the model is a message": "clew tells the host in the answer to its request",
    "a request is repeated": "clew does not repeat what was refused for good",
    "an empty answer": "clew shows the host that the answer was empty",
    "categories of errors": "status 529 is `overloaded` in `api_retry` and in the message alike",
    "frames of a subagent": "clew sends its progress, and its prompt only in the call",
    "input of a finished call": "clew keeps the input as the model wrote it",
    "notices of a hook": "clew sends frames for the hooks that it runs, none for their effect",
    "numbers of retries": "clew limits the time of retries of an overloaded service, not their number",
    "order of frames": "neither order is documented",
    "order of what the model is told": "the same words, before or after the prompt",
    "reminders to the model are frames": "clew shows the host no reminders that continue a turn",
    "the news of a background task is a frame": "clew shows the host what began the turn",
    "the text of a command is a frame": "clew shows the host what the model is told for it",
    "usage of an unfinished response": "clew counts what the service reported before it broke off",
}
# trial -> case -> lines
ACCEPTED: dict[str, dict[str, list[str]]] = {
    "the limit of turns, in text form": {
        "a limit ends a turn of `-p` in text form": [
            "- output ...",
            "+ error output ...",
        ],
    },
    "the limit of cost": {
        "a request could exceed `--max-budget-usd`": [
            "- system/init model=claude-sonnet-5-5 permissionMode=bypassPermissions",
            "-   tools ['Bash', 'Edit', 'Read', 'Write']",
            '- assistant call toolu_0_0 Bash {"command": "echo ECHOED"}',
            "- result error_max_budget_usd",
            "-   is_error true",
            "-   num_turns 1",
            '-   stop_reason "tool_use"',
            '-   terminal_reason "budget_exhausted"',
            "-   errors",
            "-   usage 0 0",
            "-   cost 0.300000",
            "-   cost 0.300000",
            "+   cost 0.000000",
            "+ system/init model=claude-sonnet-5-5 permissionMode=bypassPermissions",
            "+   tools ['Bash', 'Edit', 'Read', 'Write']",
            "+ result error_max_budget_usd",
            "+   is_error true",
            "+   num_turns 1",
            '+   terminal_reason "budget_exhausted"',
            "+   errors",
            "+   usage 0 0",
            "+   cost 0.000000",
            "- request 0 claude-sonnet-5-5",
            "-   told BEGIN",
        ],
    },
    "structured output, always wrong": {
        "usage of an unfinished response": [
            "-   usage 400 40",
            "+   usage 500 50",
        ],
    },
    "structured output, text first": {
        "reminders to the model are frames": [
            "- user text ...",
        ],
        "`num_turns`": [
            "-   num_turns 3",
            "+   num_turns 2",
        ],
    },
    "structured output, text only": {
        "a schema, and the model answers with text twice": [
            "- user text ...",
            "- result success",
            "-   is_error false",
            "-   num_turns 2",
            "+ result error_max_structured_output_retries",
            "+   is_error true",
            "+   num_turns 1",
            '-   terminal_reason "completed"',
            "-   result DONE",
            '+   terminal_reason "structured_output_retry_exhausted"',
            "+   errors",
            "- exit 0",
            "+ exit 1",
        ],
    },
    "an interrupted text": {
        "usage of an unfinished response": [
            "-   usage 0 0",
            "-   cost 0.000240",
            "+   usage 100 1",
            "+   cost 0.000210",
            "-   cost 0.000540",
            "+   cost 0.000510",
        ],
    },
    "three prompts at once": {
        "several prompts wait": [
            "+ system/init model=claude-sonnet-5-5 permissionMode=default",
            "+   tools ['Bash', 'Edit', 'Read', 'Write']",
            "+ assistant text DONE",
            "+ result success",
            "+   is_error false",
            "+   num_turns 1",
            '+   stop_reason "end_turn"',
            '+   terminal_reason "completed"',
            "+   result DONE",
            "+   usage 100 10",
            "+   cost 0.000900",
            "-   told BETA GAMMA",
            "+   told BETA",
            "+ request 2 after 1 claude-sonnet-5-5",
            "+   assistant DONE",
            "+   told GAMMA",
        ],
    },
    "a model is chosen during the turn": {
        "a change of the model is a message": [
            "- user replayed text ...",
        ],
    },
    "an unknown option": {
        "an unknown option": [
            "- exit 1",
            "+ exit 2",
        ],
    },
    "the host denies and interrupts": {
        "a host denies a call with `interrupt`": [
            "- user result toolu_0_1 failed",
            "+ user result toolu_0_1 failed DENIED",
            "-   told result toolu_0_1 failed",
            "+   told result toolu_0_1 failed DENIED",
        ],
    },
    "the host's answer is malformed": {
        "`permission_denied` frames": [
            "+ system/permission_denied",
        ],
    },
    "an interrupt while the host is asked": {
        "order of frames": [
            "+ control_response/ask_interrupt success",
            "- control_response/ask_interrupt success",
        ],
        "`permission_denials` after an interrupt": [
            '-   denied Bash {"command": "mkdir made"}',
        ],
    },
    "a plan": {
        "input of a finished call": [
            "- asks about ExitPlanMode {}",
            '+ asks about ExitPlanMode {"plan": "PLAN"}',
            "- user result toolu_0_0 ok",
            "+ user result toolu_0_0 ok PLAN",
            "-   told result toolu_0_0 ok",
            "+   told result toolu_0_0 ok PLAN",
        ],
    },
    "an input that is not JSON": {
        "input of a finished call": [
            '- assistant call toolu_0_0 Read {"__unparsedToolInput": {"len": 14, "raw": "{\\"file_path\\": "}}',
            '+ assistant call toolu_0_0 Read {"INVALID_JSON": "{\\"file_path\\": "}',
            '-   assistant call toolu_0_0 Read {"__unparsedToolInput": {"len": 14, "raw": "{\\"file_path\\": "}}',
            '+   assistant call toolu_0_0 Read {"INVALID_JSON": "{\\"file_path\\": "}',
        ],
    },
    "an unread file is edited": {
        "Write or Edit of a file that the session has not read": [
            '- assistant call toolu_0_0 Edit {"file_path": "a.txt", "new_string": "BETA", "old_string": "ALPHA", "replace_all": false}',
            "- user result toolu_0_0 ok",
            '+ assistant call toolu_0_0 Edit {"file_path": "a.txt", "new_string": "BETA", "old_string": "ALPHA"}',
            "+ user result toolu_0_0 failed",
            '-   assistant call toolu_0_0 Edit {"file_path": "a.txt", "new_string": "BETA", "old_string": "ALPHA", "replace_all": false}',
            "-   told result toolu_0_0 ok",
            '+   assistant call toolu_0_0 Edit {"file_path": "a.txt", "new_string": "BETA", "old_string": "ALPHA"}',
            "+   told result toolu_0_0 failed",
        ],
    },
    "PreToolUse denies": {
        "`permission_denied` frames": [
            "+ system/permission_denied",
        ],
    },
    "PreToolUse ends the turn": {
        "`PreToolUse` with `continue: false`": [
            "- user result toolu_0_1 ok",
            "+ system/permission_denied",
            "+ user result toolu_0_1 failed HOOKED",
            "-   result",
            "+   result TEXT",
            '+   denied Bash {"command": "mkdir made"}',
            "-   told result toolu_0_1 ok",
            "+   told result toolu_0_1 failed HOOKED",
            "+   told HOOKED",
            "-   told HOOKED",
            "- file made",
        ],
    },
    "Stop continues the turn": {
        "notices of a hook": [
            "- system/notification",
        ],
        "`num_turns`": [
            "-   num_turns 2",
            "+   num_turns 1",
        ],
    },
    "UserPromptSubmit blocks": {
        "`result` of a turn that a hook ended": [
            "- system/informational",
            "-   result HOOKED BEGIN",
            '+   terminal_reason "hook_stopped"',
            "+   result HOOKED",
        ],
    },
    "UserPromptSubmit adds context": {
        "order of what the model is told": [
            "+   told HOOKED",
            "-   told HOOKED",
        ],
    },
    "SessionStart adds context": {
        "`SessionStart` hook of a host": [
            "+ hook SessionStart",
            "+   told HOOKED",
        ],
    },
    "PermissionRequest denies": {
        "a `PermissionRequest` hook of a host": [
            '- asks about Bash {"command": "mkdir made"}',
            "- user result toolu_0_1 failed",
            "+ system/permission_denied",
            "+ user result toolu_0_1 failed HOOKED",
            "-   told result toolu_0_1 failed",
            "+   told result toolu_0_1 failed HOOKED",
        ],
    },
    "a subagent": {
        "frames of a subagent": [
            "- subagent user text TASK",
            "+ system/task_progress",
        ],
    },
    "a subagent that was not told where to work": {
        "`Agent` without `run_in_background`": [
            "- system/background_tasks_changed",
            "- user result toolu_0_0 ok",
            "+ system/task_progress",
            "+ system/task_updated",
            "+ system/task_notification status=completed",
            "+ user result toolu_0_0 ok FOUND",
            "-   cost 0.000600",
            "- subagent assistant text FOUND",
            "- system/task_updated",
            "- system/task_notification status=completed",
            "- system/background_tasks_changed",
            "- system/init model=claude-sonnet-5-5 permissionMode=bypassPermissions",
            "-   tools ['Bash', 'Edit', 'Read', 'Write']",
            "- assistant text DONE",
            "- result success",
            "-   is_error false",
            "-   num_turns 1",
            '-   stop_reason "end_turn"',
            '-   terminal_reason "completed"',
            "-   result DONE",
            "-   usage 100 10",
            "-   cost 0.001200",
            "-   origin task-notification",
            "+   cost 0.000900",
            "- request 1 after 0 claude-sonnet-5-5",
            '-   assistant call toolu_0_0 Agent {"description": "d", "prompt": "TASK", "subagent_type": "worker"}',
            "-   told result toolu_0_0 ok",
            "- request 2 claude-sonnet-5-5",
            "+ request 1 claude-sonnet-5-5",
            "- request 3 after 1 claude-sonnet-5-5",
            "-   assistant DONE",
            "-   told FOUND",
            "+ request 2 after 0 claude-sonnet-5-5",
            '+   assistant call toolu_0_0 Agent {"description": "d", "prompt": "TASK", "subagent_type": "worker"}',
            "+   told result toolu_0_0 ok FOUND",
        ],
    },
    "a subagent whose answer is cut": {
        "frames of a subagent": [
            "- subagent user text TASK",
            "+ system/task_progress",
            "- user result toolu_0_0 failed",
            "+ user result toolu_0_0 failed FOUND",
            "-   told result toolu_0_0 failed",
            "+   told result toolu_0_0 failed FOUND",
        ],
    },
    "a background command of a host": {
        "the news of a background task is a frame": [
            "+ user text ECHOED",
        ],
    },
    "a background command of -p": {
        "the news of a background task is a frame": [
            "+ user text ECHOED",
        ],
    },
    "a background command of -p, in JSON": {
        "a turn about a background task follows, in JSON form": [
            "-   num_turns 1",
            "+   num_turns 3",
            "-   usage 100 10",
            "+   usage 300 30",
            "-   origin task-notification",
        ],
    },
    "a turn fails while a background command runs": {
        "`errors` of a failed result": [
            "+   errors",
        ],
        "a turn fails while a background command runs": [
            "- system/task_notification status=completed",
            "+ system/task_notification status=stopped",
            "- system/init model=claude-sonnet-5-5 permissionMode=bypassPermissions",
            "-   tools ['Bash', 'Edit', 'Read', 'Write']",
            "- assistant text DONE",
            "- result success",
            "-   is_error false",
            "-   num_turns 1",
            '-   stop_reason "end_turn"',
            '-   terminal_reason "completed"',
            "-   result DONE",
            "-   usage 100 10",
            "-   cost 0.000600",
            "-   origin task-notification",
            "- exit 0",
            "+ error output ECHOED FORBIDDEN",
            "+ exit 1",
            "- request 2 after 1 claude-sonnet-5-5",
            "-   told ECHOED",
            "- file ended",
        ],
    },
    "a schema, and a background command": {
        "the news of a background task is a frame": [
            "+ user text ECHOED",
        ],
        "reminders to the model are frames": [
            "- user text ...",
        ],
        "`num_turns`": [
            "-   num_turns 2",
            "+   num_turns 1",
        ],
    },
    "two background commands": {
        "the news of a background task is a frame": [
            "+ user text ECHOED",
            "+ user text ECHOED",
        ],
    },
    "a background command longer than the wait": {
        "a background command runs longer than the wait after the input": [
            "- system/task_notification status=completed",
            "+ system/task_notification status=stopped",
            "- system/init model=claude-sonnet-5-5 permissionMode=bypassPermissions",
            "-   tools ['Bash', 'Edit', 'Read', 'Write']",
            "- assistant text DONE",
            "- result success",
            "-   is_error false",
            "-   num_turns 1",
            '-   stop_reason "end_turn"',
            '-   terminal_reason "completed"',
            "-   result DONE",
            "-   usage 100 10",
            "-   cost 0.000900",
            "-   origin task-notification",
            "- request 2 after 1 claude-sonnet-5-5",
            "-   assistant DONE",
            "-   told ECHOED",
            "- file ended",
        ],
    },
    "a background command that fails": {
        "the news of a background task is a frame": [
            "+ user text ...",
        ],
    },
    "the input ends before a background command": {
        "the news of a background task is a frame": [
            "+ user text ECHOED",
        ],
    },
    "the service refuses": {
        "the service refuses to answer": [
            "- system/informational",
            "- user text ...",
            "- assistant text DONE",
            "+ system/model_refusal_no_fallback",
            "-   is_error false",
            "-   num_turns 2",
            '-   stop_reason "end_turn"',
            "+   is_error true",
            "+   num_turns 1",
            '+   stop_reason "refusal"',
            "-   result DONE",
            "-   usage 200 20",
            "-   cost 0.000600",
            "+   result PART",
            "+   errors",
            "+   usage 100 10",
            "+   cost 0.000300",
            "-   cost 0.000900",
            "+   cost 0.000600",
            "- request 2 after 1 claude-sonnet-5-5",
            "-   assistant DONE",
        ],
    },
    "max_tokens twice": {
        "`num_turns`": [
            "-   num_turns 3",
            "+   num_turns 1",
        ],
    },
    "max_tokens always": {
        "`errors` of a failed result": [
            "- assistant error=max_output_tokens text ...",
            "-   result ...",
            "+   result PART",
            "+   errors",
        ],
        "`num_turns`": [
            "-   num_turns 4",
            "+   num_turns 1",
        ],
        "`stop_reason` of an error": [
            '-   stop_reason "stop_sequence"',
            '+   stop_reason "max_tokens"',
        ],
    },
    "model_context_window_exceeded": {
        "stop reason `model_context_window_exceeded`": [
            "- user text ...",
            "- assistant text DONE",
            "+ system/status",
            "+ system/status",
            "-   is_error false",
            "-   num_turns 2",
            '-   stop_reason "end_turn"',
            '-   terminal_reason "completed"',
            "-   result DONE",
            "-   usage 200 20",
            "-   cost 0.000600",
            "- exit 0",
            "+   is_error true",
            "+   num_turns 1",
            '+   stop_reason "model_context_window_exceeded"',
            '+   terminal_reason "prompt_too_long"',
            "+   result PART",
            "+   errors",
            "+   usage 100 10",
            "+   cost 0.000300",
            "+ exit 1",
            "- request 1 after 0 claude-sonnet-5-5",
            "-   assistant PART",
        ],
    },
    "pause_turn": {
        "stop reason `pause_turn`": [
            "+ assistant text DONE",
            '-   stop_reason "pause_turn"',
            '+   stop_reason "end_turn"',
            "-   result PART",
            "-   usage 100 10",
            "-   cost 0.000300",
            "+   result DONE",
            "+   usage 200 20",
            "+   cost 0.000600",
            "+ request 1 after 0 claude-sonnet-5-5",
            "+   assistant PART",
        ],
    },
    "an empty answer": {
        "an empty answer": [
            "+ assistant text ...",
        ],
        "`num_turns`": [
            "-   num_turns 2",
            "+   num_turns 1",
        ],
    },
    "529, then an answer": {
        "numbers of retries": [
            "- system/api_retry attempt=1 max_retries=10 error_status=529 error=overloaded",
            "+ system/api_retry attempt=1 max_retries=None error_status=529 error=overloaded",
        ],
    },
    "429 with retry-after": {
        "numbers of retries": [
            "- system/api_retry attempt=1 max_retries=10 error_status=429 error=rate_limit",
            "+ system/api_retry attempt=1 max_retries=9 error_status=429 error=rate_limit",
        ],
    },
    "529 always": {
        "categories of errors": [
            "- assistant error=server_error api_error_type=overloaded_error text OVERLOADED",
            "+ assistant error=overloaded api_error_type=overloaded_error text OVERLOADED",
        ],
        "`errors` of a failed result": [
            "+   errors",
        ],
    },
    "400, the prompt is too long": {
        "`status` frames of a compaction": [
            "+ system/status",
            "+ system/status",
        ],
        "`errors` of a failed result": [
            "+   errors",
            "+   errors",
        ],
    },
    "401": {
        "HTTP status 401": [
            "- system/api_retry attempt=1 max_retries=1 error_status=401 error=authentication_failed",
            "- request 1 after 0 claude-sonnet-5-5",
        ],
        "`errors` of a failed result": [
            "+   errors",
        ],
    },
    "403": {
        "`errors` of a failed result": [
            "+   errors",
        ],
    },
    "404 for the model": {
        "`errors` of a failed result": [
            "+   errors",
        ],
        "a request is repeated": [
            "- request 1 after 0 unheard-of",
        ],
    },
    "a cut stream": {
        "numbers of retries": [
            "- system/api_retry attempt=1 max_retries=10 error_status=None error=unknown",
            "+ system/api_retry attempt=1 max_retries=9 error_status=200 error=unknown",
        ],
    },
    "an error in a stream": {
        "numbers of retries": [
            "+ system/api_retry attempt=1 max_retries=None error_status=200 error=overloaded",
        ],
        "usage of an unfinished response": [
            "-   cost 0.000300",
            "+   cost 0.000510",
        ],
    },
    "/context": {
        "output of a slash command": [
            "- assistant text ...",
            "+ system/local_command_output",
        ],
        "`terminal_reason` of a command": [
            '+   terminal_reason "completed"',
        ],
    },
    "/cost": {
        "output of a slash command": [
            "- assistant text ...",
            "+ system/local_command_output",
        ],
        "`terminal_reason` of a command": [
            '+   terminal_reason "completed"',
        ],
    },
    "/clear": {
        "`background_tasks_changed` frames": [
            "- system/background_tasks_changed",
        ],
        "`terminal_reason` of a command": [
            '+   terminal_reason "completed"',
        ],
    },
    "/compact": {
        "`/compact` can't make the session smaller": [
            "- system/status",
            "- system/compact_boundary",
            "- user text ...",
            "- user replayed text ...",
            "- result success",
            "-   is_error false",
            "+ result error_during_execution",
            "+   is_error true",
            "-   result",
            "+   errors",
            "-   cost 0.000600",
            "+   cost 0.000300",
            "-   cost 0.000900",
            "+   cost 0.000600",
            "- request 1 claude-sonnet-5-5",
            "-   told KEEP",
            "+ request 1 after 0 claude-sonnet-5-5",
            "+   assistant DONE",
        ],
    },
    "an unknown command": {
        "an unknown slash command": [
            "- assistant text DONE",
            "+ system/local_command_output",
            "-   num_turns 1",
            '-   stop_reason "end_turn"',
            "+   num_turns 0",
            "-   result DONE",
            "-   usage 100 10",
            "-   cost 0.000600",
            "+   result ...",
            "+   usage 0 0",
            "+   cost 0.000300",
            "-   cost 0.000900",
            "+   cost 0.000600",
            "-   told WORDS",
            "- request 2 after 1 claude-sonnet-5-5",
            "-   assistant DONE",
        ],
    },
    "a command of the project": {
        "the text of a command is a frame": [
            "+ user text MINE ALPHA BETA ALPHA",
        ],
        "`$1` in a command file": [
            "-   told MINE ALPHA BETA BETA",
            "+   told MINE ALPHA BETA ALPHA",
        ],
    },
    "arguments of a skill": {
        "the text of a command is a frame": [
            "+ user text MINE ALPHA BETA ALPHA BETA",
        ],
    },
    "PreCompact blocks": {
        "`/compact` can't make the session smaller": [
            "- system/status",
            "- assistant text ...",
            "- result success",
            "-   is_error false",
            "+ result error_during_execution",
            "+   is_error true",
            "-   result ...",
            "+   errors",
        ],
    },
}
