#!/usr/bin/env bash
# Answer one prompt about the checkout. clew reads, but does not change anything: calls that would
# need approval are denied. The project's own settings count for nothing, because anybody who opens a
# pull request can write them.
set -euo pipefail
options=(--print --no-session-persistence --permission-prompts none --setting-sources ""
  --max-budget-usd "$CLEW_ACTION_BUDGET")
[ -z "${CLEW_ACTION_MODEL:-}" ] || options+=(--model "$CLEW_ACTION_MODEL")
[ -z "${CLEW_ACTION_ALLOWED:-}" ] || options+=(--allowed-tools "$CLEW_ACTION_ALLOWED")
[ -n "${CLEW_BASE_URL:-}" ] || unset CLEW_BASE_URL
export CLEW_CONFIG_DIR="$RUNNER_TEMP/clew-config"
prompt=$CLEW_ACTION_PROMPT
if [ -n "${CLEW_ACTION_BASE:-}" ]; then
  prompt="$prompt"$'\n\n'"The changes are those of: git diff $CLEW_ACTION_BASE...HEAD"
fi
answer=$("$RUNNER_TEMP/clew/bin/clew" "${options[@]}" -- "$prompt" </dev/null)
printf '%s\n' "$answer"
# A delimiter that the answer cannot contain, because it is made after the answer.
end="end-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')"
printf 'answer<<%s\n%s\n%s\n' "$end" "$answer" "$end" >>"$GITHUB_OUTPUT"
printf '%s\n' "$answer" >>"$GITHUB_STEP_SUMMARY"
