#!/usr/bin/env bash
# Runs the README's quick start, except its build, in an empty folder, and checks that the insight and three webhooks arrive.
#   tests/document/quickstart.sh BINARY
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; pkill -f -- "$work" 2>/dev/null || true; rm -rf "$work"' EXIT

awk '/^```bash quickstart$/ { on = 1; next } /^```$/ { on = 0 } on' README.md \
  | grep -v -e '^cargo build' -e '^export PATH=' > "$work/lines.sh"
[ -s "$work/lines.sh" ] || { echo "README.md has no quick start"; exit 1; }
mkdir "$work/bin"
ln -s "$binary" "$work/bin/porchlight"

# A proxy of this machine does not reach the service.
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}" NO_PROXY="127.0.0.1,localhost${NO_PROXY:+,$NO_PROXY}"

# In its own process session, so that the script can stop all processes that it starts.
cd "$work"
PATH="$work/bin:$PATH" setsid timeout 300 bash -euo pipefail -c 'trap "kill 0" EXIT; source ./lines.sh
  # The last webhook may still be on its way.
  until [ "$(grep -c "signature valid" out.txt)" -ge 3 ]; do sleep 1; done' > out.txt 2>&1 || true
grep -q '"reasonCodes":\["INSUFFICIENT_DATA"\]' out.txt || { echo "no insight"; cat out.txt; exit 1; }
for event in session.started session.stopped insight.updated; do
  grep -q "$event.*signature valid" out.txt || { echo "no valid webhook: $event"; cat out.txt; exit 1; }
done
echo "the quick start works"
