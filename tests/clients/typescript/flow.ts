// Runs a session and a webhook through the generated TypeScript client, and prints the insight that it read.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];

const environment = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};
const headers = { "Service-Key": environment("PORCHLIGHT_KEY") };
// Batches may be sent and acknowledged as protobuf too; this client speaks JSON.
type Json = "application/json" | "application/problem+json";
const client = createClient<paths, Json>({ baseUrl: environment("PORCHLIGHT_URL"), headers });

/** The data of an answer; a problem is thrown. */
function good<T>(answer: { data?: T; error?: Schemas["Problem"]; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

/** Returns the result of `read` once there is one, within half a minute. */
async function until<T>(read: () => Promise<T | undefined>): Promise<T> {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const value = await read();
    if (value !== undefined) return value;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("timed out");
}

function expect(condition: boolean, what: unknown): void {
  if (!condition) throw new Error(JSON.stringify(what));
}

/** Starts a session, sends a batch, stops it; returns its ID. */
async function record(name: string): Promise<string> {
  const address = { line1: "Lindenweg 7", city: "Berlin", country: "DE", lat: 52.52, lng: 13.405 };
  const session = good(
    await client.POST("/v1/sessions/start", {
      params: { header: { "Idempotency-Key": name } },
      body: { deliveryId: name, externalRiderId: "rider-1", address },
    }),
  );
  const fixes = [...Array(10).keys()].map((t): Schemas["Sample"] => ({ t, kind: "location", lat: 52.52, lng: 13.405, accuracyM: 5 }));
  const batch = { seq: 0, samples: [...fixes, { t: 9.5, kind: "pressure", hPa: 1008.4 } as const] };
  const path = { id: session.sessionId };
  const acknowledged = good(await client.POST("/v1/sessions/{id}/telemetry", { params: { path }, body: batch }));
  expect(acknowledged.ackSeq === 0, acknowledged);
  const stopped = good(await client.POST("/v1/sessions/stop", { body: { sessionId: session.sessionId } }));
  expect(stopped.status === "completed", stopped);
  return session.sessionId;
}

const first = await record("typescript-1");
const insight = await until(async () => {
  const read = good(await client.GET("/v1/sessions/{id}/insights", { params: { path: { id: first } } }));
  return read.status === "processing" ? undefined : read;
});
const created = good(await client.POST("/v1/webhooks", { body: { url: environment("RECEIVER_URL") } }));
expect(good(await client.GET("/v1/webhooks")).id === created.id, created);
expect(good(await client.PUT("/v1/webhooks", { body: { enabled: true } })).enabled, created);
const rotated = good(await client.POST("/v1/webhooks/rotate", { body: { overlapSec: 60 } }));
expect(rotated.secret !== created.secret, "the secret is the same");
const tested = good(await client.POST("/v1/webhooks/test", { body: { event: "insight.updated" } }));
expect(tested.statusCode === 200, tested);
const second = await record("typescript-2");
const rows = await until(async () => {
  const page = good(await client.GET("/v1/webhooks/deliveries", { params: { query: { sessionId: second } } }));
  const done = page.data.filter((row) => row.status === "delivered");
  return done.length === 3 ? done : undefined;
});
const detail = good(await client.GET("/v1/webhooks/deliveries/{id}", { params: { path: { id: rows[0]!.id } } }));
expect(detail.attemptLog[0]?.statusCode === 200, detail);
expect((await client.DELETE("/v1/webhooks")).response.status === 204, "not deleted");
const gone = await client.GET("/v1/webhooks");
// The code narrows the problem to its own model.
expect(gone.error?.code === "webhook_not_found" && gone.error.status === 404, gone.error);
console.log(JSON.stringify(insight));
