#!/bin/sh
# Install clew for all users of a development container. PACKAGE comes from the feature's options.
set -eu
if command -v apt-get >/dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends bubblewrap git python3 python3-venv ripgrep
  rm -rf /var/lib/apt/lists/*
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "clew needs Python 3.11 or newer; add the feature for Python before this one" >&2
  exit 1
}
python3 -m venv /opt/clew
/opt/clew/bin/python -m pip install --quiet --no-cache-dir "${PACKAGE:-clew}"
ln -sf /opt/clew/bin/clew /usr/local/bin/clew
clew --version
