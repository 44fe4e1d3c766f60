#!/usr/bin/env bash
# Fetches the tools that check the document and run the README examples into target/checks: schemathesis, Spectral, tsx.
set -euo pipefail
cd "$(dirname "$0")/../.."
checks=target/checks
mkdir -p "$checks"
if ! [ -x "$checks/venv/bin/schemathesis" ]; then
  python3 -m venv "$checks/venv"
  "$checks/venv/bin/pip" install -q --disable-pip-version-check schemathesis==4.32.5
fi
bin=$checks/node/node_modules/.bin
if ! [ -x "$bin/spectral" ] || ! [ -x "$bin/tsx" ]; then
  npm install --silent --no-audit --no-fund --prefix "$checks/node" @stoplight/spectral-cli@6.16.3 tsx@4
fi
