#!/usr/bin/env bash
# Fetches the client generators into target/checks, pinned: openapi-python-client, openapi-typescript, openapi-generator.
set -euo pipefail
cd "$(dirname "$0")/../.."
checks=target/checks
python=0.29.1
if ! [ -x "$checks/clients-venv/bin/openapi-python-client" ]; then
  python3 -m venv "$checks/clients-venv"
  "$checks/clients-venv/bin/pip" install -q --disable-pip-version-check "openapi-python-client==$python"
fi
mkdir -p "$checks/clients-typescript"
cp tests/clients/typescript/{package.json,package-lock.json,tsconfig.json} "$checks/clients-typescript"
if ! [ -x "$checks/clients-typescript/node_modules/.bin/openapi-typescript" ]; then
  npm ci --silent --no-audit --no-fund --prefix "$checks/clients-typescript"
fi
# The version of the generator must equal the version for the Java client.
generator=$(sed -n '/openapi-generator-maven-plugin/{n;s/.*<version>\(.*\)<.*/\1/p}' tests/clients/java/pom.xml)
if ! [ -f "$checks/openapi-generator-$generator.jar" ]; then
  mvn -q -B dependency:copy -Dartifact="org.openapitools:openapi-generator-cli:$generator" \
    -DoutputDirectory="$checks" -Dmdep.useBaseVersion=true
  mv "$checks/openapi-generator-cli-$generator.jar" "$checks/openapi-generator-$generator.jar"
fi
