#!/usr/bin/env bash
# Generates clients from the document of a running service and uses them against it:
#   tests/clients/run.sh BINARY
# Python, TypeScript and Java start, feed and stop a session, read its insight, and exercise the webhook; each prints the
# insight that it read. Swift, Kotlin and Go are generated without a warning about names or files.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "$1")
# A proxy of this machine does not reach the service.
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}" NO_PROXY="127.0.0.1,localhost${NO_PROXY:+,$NO_PROXY}"
here=$PWD/tests/clients
checks=$PWD/target/checks
"$here/tools.sh"

work=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# Waits for a pattern in a file that a process of this script writes, and prints the first match.
first_in() {
  local found
  for _ in $(seq 300); do
    found=$(sed -n "$2" "$1" | head -1)
    [ -n "$found" ] && { echo "$found"; return; }
    sleep 0.1
  done
  echo "no $2 in $1:" >&2
  cat "$1" >&2
  return 1
}

echo "-- a receiver with a certificate of its own authority"
(
  cd "$work"
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Test authority" -keyout ca.key -out ca.pem
  openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout receiver.key -out receiver.csr
  openssl x509 -req -in receiver.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out receiver.pem \
    -extfile <(echo "subjectAltName=DNS:localhost")
) 2> "$work/openssl.log" || { cat "$work/openssl.log"; exit 1; }
touch "$work/received"
python3 "$here/receiver.py" "$work/receiver.pem" "$work/receiver.key" "$work/received" > "$work/receiver.log" &
started+=($!)
export RECEIVER_URL="https://localhost:$(first_in "$work/receiver.log" 's/^\([0-9]*\)$/\1/p')/hook"

echo "-- the service"
export PORCHLIGHT__STORE__PATH="$work/data"
PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES="127.0.0.0/8,::1/128" PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE="$work/ca.pem" \
  "$binary" serve --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0 > "$work/service.log" &
started+=($!)
export PORCHLIGHT_URL="http://$(first_in "$work/service.log" 's/.*"api":"\([^"]*\)".*/\1/p')"
curl -fsS "$PORCHLIGHT_URL/openapi.json" -o "$work/openapi.json"
# One organization for each client, because an organization has one webhook.
key() { "$binary" keys create --org "$1" --env sandbox --kind secret; }

echo "-- python"
(
  cd "$work"
  PATH="$checks/clients-venv/bin:$PATH" openapi-python-client generate --meta none --path openapi.json --output-path porchlight_client \
    > python.log 2>&1 || { cat python.log; exit 1; }
  # The generator leaves out only the media types that it does not support: protobuf, NDJSON, pictures, archives.
  grep -A3 '^WARNING' python.log | grep -E 'Unsupported|will not' | grep -vE 'protobuf|ndjson|image/|application/zip|POST /v1/telemetry ' && exit 1
  PORCHLIGHT_KEY=$(key python) PYTHONPATH="$work" "$checks/clients-venv/bin/python" "$here/python/flow.py"
)

echo "-- typescript"
(
  cd "$checks/clients-typescript"
  cp "$here/typescript/flow.ts" .
  node_modules/.bin/openapi-typescript "$work/openapi.json" -o api.d.ts > "$work/typescript.log" 2>&1 || { cat "$work/typescript.log"; exit 1; }
  node_modules/.bin/tsc -p .
  PORCHLIGHT_KEY=$(key typescript) node built/flow.js
)

echo "-- java"
cp -r "$here/java" "$work/java"
PORCHLIGHT_KEY=$(key java) mvn -q -B -f "$work/java/pom.xml" -Ddocument="$work/openapi.json" compile exec:java > "$work/java.log" 2>&1 ||
  { cat "$work/java.log"; exit 1; }
grep '^{' "$work/java.log"

echo "-- webhooks as they were received: an insight and a test event"
grep -v '"test":true' "$work/received" | grep -m1 '"event":"insight.updated"'
grep -m1 '"test":true' "$work/received"

for generator in swift6 kotlin go; do
  echo "-- $generator"
  log=$work/$generator.log
  java -jar "$checks"/openapi-generator-*.jar generate -g "$generator" -i "$work/openapi.json" -o "$work/$generator" > "$log" 2>&1 ||
    { cat "$log"; exit 1; }
  # Warnings about the generator itself and about examples say nothing about the document.
  if grep -E 'WARN|ERROR|[Dd]uplicate file|[Rr]enamed' "$log" | grep -vE '3\.1 support is still in beta|ExamplesUtils|schema name: null'; then
    echo "$generator: unexpected warnings"
    exit 1
  fi
  find "$work/$generator" -type f | wc -l | sed 's/$/ files/'
done
