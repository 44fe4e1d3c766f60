#!/usr/bin/env bash
# Checks the OpenAPI document against the running service: Spectral, then schemathesis with a key of each kind.
#   tests/document/run.sh BINARY [EXAMPLES]     EXAMPLES: per operation, for the secret key (15)
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "$1")
# A proxy of this machine does not reach the service.
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}" NO_PROXY="127.0.0.1,localhost${NO_PROXY:+,$NO_PROXY}"
examples=${2:-15}
here=tests/document
checks=target/checks
"$here/tools.sh"

work=$(mktemp -d)
server=""
trap 'kill $server 2>/dev/null; wait; rm -rf "$work"' EXIT
export PORCHLIGHT__STORE__PATH="$work/data"
# Schemathesis follows the links in the document at the service's address, and webhooks may go to this machine.
PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES=127.0.0.0/8 PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND=0 \
  "$binary" serve --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0 > "$work/log" &
server=$!
url=""
for _ in $(seq 300); do
  url=$(sed -n 's/.*"api":"\([^"]*\)".*/\1/p' "$work/log" | head -1)
  [ -n "$url" ] && break
  sleep 0.1
done
[ -n "$url" ] || { echo "the service did not start"; cat "$work/log"; exit 1; }

"$binary" openapi > "$work/openapi.json"
echo "-- spectral"
"$checks/node/node_modules/.bin/spectral" lint -F warn -r "$here/spectral.yaml" "$work/openapi.json"

key() { "$binary" keys create --init --org checks --env sandbox --kind "$1"; }
run() {
  echo "-- schemathesis, $1"
  (cd "$work" && PYTHONPATH="$OLDPWD/$here" SCHEMATHESIS_HOOKS=hooks PYTHONDONTWRITEBYTECODE=1 \
    "$OLDPWD/$checks/venv/bin/schemathesis" --config-file "$OLDPWD/$here/schemathesis.toml" \
    run "$work/openapi.json" --url "http://$url" --header "Service-Key: $2" --max-examples "$3" "${@:4}")
}
secret=$(key secret)
run "secret key" "$secret" "$examples"
# The other two credentials have few rights: these runs check how the service refuses them.
run "client key" "$(key client)" 5 --phases examples,fuzzing
token=$(curl -fsS -H "Service-Key: $secret" -H 'Content-Type: application/json' "http://$url/v1/sessions/start" -d '{
  "deliveryId": "d", "externalRiderId": "r", "address": {"line1": "", "city": "", "country": "", "lat": 1, "lng": 2}}' |
  sed 's/.*"sessionToken":"\([^"]*\)".*/\1/')
run "session token" "$token" 5 --phases examples,fuzzing
