// The maps of the console, as a person uses them. Ends with 1 and a sentence when something is not as it should be.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { begin, call, until, whole } from "./acts.mjs";

const root = process.env.CONSOLE;
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = process.env.SCREENSHOTS;
fs.mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });

const requests = { own: 0, squares: 0 };
const LOOKS = ["light", "dark"].flatMap((scheme) => [1360, 390].map((width) => ({ name: `${scheme}-${width}`, scheme, width })));

// A page on which nothing but the expected error may go wrong, and which asks no other host for anything.
async function visitor({ scheme, width }, key = process.env.KEY, expected = null) {
  const context = await browser.newContext({
    viewport: { width, height: width > 600 ? 900 : 844 }, colorScheme: scheme, timezoneId: "UTC", reducedMotion: "reduce", hasTouch: width < 600,
  });
  context.setDefaultTimeout(120_000);
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol === "data:") return;
    assert.equal(url.origin, new URL(root).origin, `a request to another host: ${url}`);
    requests.own += 1;
    if (url.pathname.startsWith("/console/map/")) requests.squares += 1;
  });
  const page = await context.newPage();
  page.on("pageerror", (error) => { throw new Error(`${page.url()}: ${error}`); });
  page.on("console", (message) => { if (message.type() === "error" && !expected?.test(message.text())) throw new Error(`${page.url()}: ${message.text()}`); });
  await page.goto(root + "/console/sign-in");
  await page.fill("#key", key);
  await page.click("button.primary");
  await page.waitForURL(root + "/console");
  return page;
}

async function sound(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const faults = found.violations.map((fault) => `${fault.id}: ${fault.help}: ${fault.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  assert.deepEqual(faults, [], name);
  assert.ok(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), `${name} is wider than the screen`);
}

// The content of the canvas as a number that differs between drawings.
const drawing = (page) => page.evaluate(() => {
  const canvas = document.querySelector(".street-map canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let hash = 0;
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {
    const pixel = data[at] << 16 | data[at + 1] << 8 | data[at + 2];
    if (seen.size < 5000) seen.add(pixel);
    hash = (hash * 31 + pixel) | 0;
  }
  return { hash, colours: seen.size };
});
async function settled(page) {
  await page.waitForLoadState("networkidle").catch(() => {});
  let before = null;
  return until("the map stands still", async () => {
    const now = await drawing(page);
    const same = before?.hash === now.hash && now;
    before = now;
    await page.waitForTimeout(150);
    return same;
  });
}

// The first message of a stream, as this visitor receives it.
async function firstMessage(page, address) {
  const cookies = await page.context().cookies();
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  const { body } = await fetch(root + address, { headers: { cookie, accept: "text/event-stream" } });
  let text = "";
  // Leaving the loop closes the stream.
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes("\n\n")) break;
  }
  return text.slice(0, text.indexOf("\n\n") + 2);
}

const steps = {
  async "the session page shows the way on the street map"() {
    const session = await whole(0);
    for (const look of LOOKS) {
      const page = await visitor(look);
      await page.goto(`${root}/console/sessions/${session.sessionId}`);
      const first = await settled(page);
      assert.ok(first.colours > 100, `${first.colours} colours`);
      assert.match(await page.textContent(".map-source"), /Synthetic map/);
      assert.match(await page.getAttribute("a[href^='geo:']", "href"), /^geo:45\.\d+,-27\.\d+\?q=/);
      assert.match(await page.textContent("dl.facts"), /45\.\d{6}, -27\.\d{6} ± \d+ m/);
      await sound(page, `session ${look.name}`);
      await page.screenshot({ path: `${pictures}/map-session-${look.name}.png`, fullPage: true });
      await page.click("[data-map=address]");
      const near = await settled(page);
      assert.notEqual(near.hash, first.hash, "the address is shown closer");
      await page.locator(".street-map").screenshot({ path: `${pictures}/map-address-${look.name}.png` });
      await page.context().close();
    }
  },

  async "the map is moved and zoomed, and an event highlights its stretch"() {
    const page = await visitor(LOOKS[0]);
    const id = (await call("GET", "/v1/sessions?limit=1")).data[0].sessionId;
    await page.goto(`${root}/console/sessions/${id}`);
    const first = await settled(page);
    await page.locator(".street-map").scrollIntoViewIfNeeded();
    const box = await page.locator(".street-map canvas").boundingBox();
    await page.mouse.move(box.x + 300, box.y + 200);
    await page.mouse.down();
    await page.mouse.move(box.x + 400, box.y + 260, { steps: 4 });
    await page.mouse.up();
    const moved = await settled(page);
    assert.notEqual(moved.hash, first.hash);
    await page.focus(".street-map canvas");
    await page.keyboard.press("+");
    const zoomed = await settled(page);
    assert.notEqual(zoomed.hash, moved.hash);
    await page.keyboard.press("0");
    const all = await settled(page);
    assert.match(await page.textContent(".map-place"), /^4\d\.\d{5}, -2\d\.\d{5}$/);
    await page.click("summary:has-text('events as a table')");
    await page.hover("[data-span] >> nth=0");
    assert.ok(await page.locator(".street-map[data-highlight]").count());
    assert.notEqual((await settled(page)).hash, all.hash, "the stretch is highlighted");
    await page.mouse.move(2, 2);
    assert.equal(await page.locator(".street-map[data-highlight]").count(), 0);
    await page.focus("[data-span] >> nth=1");
    assert.ok(await page.locator(".street-map[data-highlight]").count(), "so does the keyboard");
    await page.context().close();
  },

  async "the path image lies on the street map"() {
    const id = (await call("GET", "/v1/sessions?limit=1")).data[0].sessionId;
    const { pathImageUrl } = await call("GET", `/v1/sessions/${id}/insights`);
    const address = root + new URL(pathImageUrl).pathname + new URL(pathImageUrl).search;
    const png = Buffer.from(await (await fetch(address)).arrayBuffer());
    fs.writeFileSync(`${pictures}/map-path.png`, png);
    const svg = await (await fetch(address.replace("path.png", "path.svg"))).text();
    assert.match(svg, /Synthetic map/);
    assert.ok(!/<script|href=/.test(svg));
    console.log(`      path image on a map: PNG ${png.length} bytes, SVG ${svg.length} bytes`);
    for (const look of LOOKS) {
      const page = await visitor(look);
      await page.goto(address.replace("path.png", "path.svg"));
      await page.screenshot({ path: `${pictures}/map-path-${look.name}.png` });
      await page.context().close();
    }
  },

  async "the board reconnects after a refusal and shows no session that ended meanwhile"() {
    const [ended, running] = [await begin(0, { deliveryId: "ended-meanwhile" }), await begin(1, { deliveryId: "still-running" })];
    const page = await visitor(LOOKS[0], process.env.KEY, /status of 502/);
    const first = await firstMessage(page, "/console/board/live");
    // The first stream breaks off after its first message. A proxy refuses the following ones while the server restarts.
    let requested = 0;
    let isRestarting = true;
    await page.route("**/console/board/live", (route) => {
      requested += 1;
      if (requested === 1) return route.fulfill({ contentType: "text/event-stream", body: first });
      return isRestarting ? route.fulfill({ status: 502 }) : route.continue();
    });
    await page.goto(root + "/console/board");
    const row = (delivery) => page.locator(`#board-rows tr:has-text('${delivery}')`).count();
    await until("both are shown", async () => (await row("ended-meanwhile")) && (await row("still-running")));
    const lossOf = async () => /^not updating since (\d\d [A-Z][a-z]{2} \d\d:\d\d:\d\d) UTC; reconnecting$/.exec(await page.textContent("#freshness"))?.[1];
    const loss = await until("the loss is shown", lossOf);
    await ended.stop();
    await until("two streams are refused", () => requested === 3);
    assert.equal(await lossOf(), loss, "the time is that of the loss");
    await page.selectOption("#zone", "local");
    assert.match(await page.textContent("#freshness"), /local time; reconnecting$/);
    isRestarting = false;
    await until("the board is live again", async () => (await page.textContent("#freshness")) === "live");
    assert.equal(await row("ended-meanwhile"), 0);
    assert.equal(await row("still-running"), 1);
    await page.context().close();
    await running.stop();
  },

  async "the board shows 1,000 live sessions and stays smooth"() {
    const { batches, start } = JSON.parse(fs.readFileSync(`${process.env.FOLDER}/deliveries.json`, "utf8"))[0];
    const sessions = [];
    const batch = (seq, number) => {
      const angle = number * 2.4;
      const far = 0.014 * Math.sqrt(number / 1000);
      const at = (t) => ({ kind: "location", t: seq * 5 + t, lat: 45.5 + far * Math.sin(angle) + seq * 0.0001, lng: -27.5 + far * 1.3 * Math.cos(angle), accuracyM: 8 });
      return JSON.stringify({ seq, samples: [at(0), at(1), at(2)] });
    };
    assert.ok(batches.length);
    const work = Array.from({ length: 1000 }, (_, number) => number);
    const worker = async () => {
      for (let number; (number = work.shift()) !== undefined;) {
        const { sessionId } = await call("POST", "/v1/sessions/start", { ...start, deliveryId: `board-${number}`, externalRiderId: `rider-${number}` });
        await call("POST", `/v1/sessions/${sessionId}/telemetry`, batch(0, number));
        sessions[number] = sessionId;
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    const page = await visitor(LOOKS[0]);
    await page.goto(root + "/console/board");
    await until("all are shown", async () => /^live/.test(await page.textContent("#freshness")) && /: 1000/.test(await page.textContent("#board-count")));
    for (let round = 1; round <= 4; round++) {
      const rest = sessions.map((id, number) => [id, number]);
      const sender = async () => { for (let one; (one = rest.pop());) await call("POST", `/v1/sessions/${one[0]}/telemetry`, batch(round, one[1])); };
      await Promise.all(Array.from({ length: 16 }, sender));
      await page.waitForTimeout(2200);
    }
    const updates = await page.evaluate(() => performance.getEntriesByName("board-update").map((one) => [one.duration, one.detail]));
    const took = updates.map(([ms]) => ms).sort((a, b) => a - b);
    const changed = updates.map(([, count]) => count);
    console.log(`      board: ${updates.length} updates of ${Math.min(...changed)} to ${Math.max(...changed)} sessions; script per update p50 ${took[took.length >> 1].toFixed(1)} ms, most ${took.at(-1).toFixed(1)} ms`);
    assert.ok(updates.length >= 4 && changed.some((count) => count >= 200), "sessions moved on the board");
    assert.equal(await page.locator("#board-rows tbody tr").count(), 50);
    await page.context().close();
    for (const look of LOOKS) {
      const page = await visitor(look);
      await page.goto(root + "/console/board");
      await until("all are shown", async () => /: 1000/.test(await page.textContent("#board-count")));
      await page.waitForTimeout(1500);
      await sound(page, `board ${look.name}`);
      await page.screenshot({ path: `${pictures}/map-board-${look.name}.png` });
      await page.context().close();
    }
  },

  async "another organization sees none of them"() {
    const page = await visitor(LOOKS[0], process.env.OTHER_KEY);
    await page.goto(root + "/console/board");
    await until("it is connected", async () => /^live/.test(await page.textContent("#freshness")));
    assert.match(await page.textContent("#board-count"), /: 0/);
    assert.equal(await page.textContent("#board-more"), "No sessions in progress.");
    await page.context().close();
  },

  async "the log names who opened the board"() {
    const log = (await call("GET", "/v1/audit?action=console.view&limit=50")).data;
    assert.ok(log.length > 0);
    const streams = (await call("GET", "/v1/audit?action=events.read&limit=50")).data;
    assert.ok(streams.length > 0);
  },
};

let failed = false;
for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed = true;
    console.error(`FAIL  ${name}\n${error.stack}`);
  }
}
console.log(`      ${requests.own} requests, all to the service itself; ${requests.squares} of them for squares of the map`);
await browser.close();
process.exit(failed ? 1 : 0);
