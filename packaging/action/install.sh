#!/usr/bin/env bash
# Install clew from the action's own checkout into an environment of its own.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
env="$RUNNER_TEMP/clew"
python3 -m venv "$env"
"$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$root/locks/core.txt"
"$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$root"
"$env/bin/clew" --version
