// Helpers of the browser's tests: a receiver with a configurable status, and phones.

import fs from "node:fs";
import https from "node:https";
import path from "node:path";

const folder = process.env.FOLDER;
const api = process.env.CONSOLE;

// A receiver of webhooks that answers with `receiver.status`.
export const receiver = { status: 200, received: [] };

export function listen() {
  const read = (name) => fs.readFileSync(path.join(folder, name));
  const server = https.createServer({ key: read("receiver.key"), cert: read("receiver.pem") }, (request, response) => {
    let body = "";
    request.on("data", (chunk) => { body += chunk; });
    request.on("end", () => {
      receiver.received.push({ headers: request.headers, body });
      response.statusCode = receiver.status;
      response.end(receiver.status === 200 ? '{"taken":true}' : "<h1>upstream is unavailable</h1><script>alert(3)</script>");
    });
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => {
    server.unref();
    resolve(`https://localhost:${server.address().port}/hooks/porchlight`);
  }));
}

// Calls the API. On a busy machine a request may be slower than the service's deadline for its head: then it is repeated.
export async function call(method, address, body) {
  const send = () => fetch(api + address, {
    method,
    headers: { "service-key": process.env.KEY, ...(body ? { "content-type": "application/json" } : {}) },
    body: body && (typeof body === "string" ? body : JSON.stringify(body)),
  });
  let answer = await send();
  for (let repeated = 0; answer.status === 408 && repeated < 10; repeated++) answer = await send();
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${address}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : {};
}

const deliveries = () => JSON.parse(fs.readFileSync(path.join(folder, "deliveries.json"), "utf8"));

// Starts a session with the fields of a delivery and these changes. Returns functions that send its next batch (false if
// none is left) and stop it.
export async function begin(number, changes = {}) {
  const { start, batches, pod, seconds } = deliveries()[number];
  const startedAt = Date.now() - Math.ceil(seconds * 1000);
  const { sessionId } = await call("POST", "/v1/sessions/start", { ...start, ...changes, startedAt: new Date(startedAt).toISOString() });
  let next = 0;
  return {
    sessionId,
    deliveryId: start.deliveryId,
    async send() {
      if (next >= batches.length) return false;
      await call("POST", `/v1/sessions/${sessionId}/telemetry`, batches[next++]);
      return true;
    },
    async stop() {
      const endedAt = new Date(startedAt + Math.ceil(seconds * 1000)).toISOString();
      await call("POST", "/v1/sessions/stop", { sessionId, endedAt, ...(pod ? { pod } : {}) });
    },
  };
}

export async function whole(number) {
  const session = await begin(number);
  while (await session.send());
  await session.stop();
  await until("it is scored", async () => (await call("GET", `/v1/sessions/${session.sessionId}/insights`)).status !== "processing");
  return session;
}

export async function until(what, is) {
  for (let tried = 0; tried < 2_400; tried++) {
    const found = await is();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`it never came that ${what}`);
}

/** Reloads a page. Returns false if another navigation, such as that of a form, was under way. */
export async function reloaded(page) {
  try {
    await page.reload();
    return true;
  } catch {
    return false;
  }
}
