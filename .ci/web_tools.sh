#!/usr/bin/env bash
# What `make test-web` needs besides Python: Node.js with npm, Chromium, and the packages of examples/web.
# Missing programs are installed where that is possible (root on Debian or Ubuntu); elsewhere the error names them.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v chromium >/dev/null || missing+=(chromium)
if ((${#missing[@]})); then
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "error: make test-web needs ${missing[*]}: install them and run it again." >&2
    exit 2
  fi
  echo "Installing ${missing[*]}."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
cd examples/web
# The lock file is copied into node_modules after a good install: the same one again installs nothing.
cmp -s package-lock.json node_modules/installed-lock.json || {
  npm ci --no-audit --no-fund
  cp package-lock.json node_modules/installed-lock.json
}
