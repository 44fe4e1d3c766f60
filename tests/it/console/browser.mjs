// Uses the console as a person does. Exits with 1 and a message if a check fails.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { begin, call, listen, receiver, reloaded, until, whole } from "./acts.mjs";

const root = process.env.CONSOLE;
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = process.env.SCREENSHOTS;
fs.mkdirSync(pictures, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const looks = {
  light: { viewport: { width: 1280, height: 800 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: "dark" },
  narrow: { viewport: { width: 360, height: 760 }, colorScheme: "light", hasTouch: true },
};

// Opens a page that fails the test on a script error, a violation of its content policy, or a dialog.
async function visitor(look, options = {}) {
  const context = await browser.newContext({ ...looks[look], timezoneId: "UTC", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => { throw new Error(`${page.url()}: ${error}`); });
  page.on("dialog", () => { throw new Error(`${page.url()}: a dialog`); });
  page.on("console", (message) => {
    const expected = /status (of )?(404|422|429)/.test(message.text());
    if (message.type() === "error" && !expected) throw new Error(`${page.url()}: ${message.text()}`);
  });
  return page;
}

async function signIn(page, key = process.env.KEY) {
  await page.goto(root + "/console/sign-in");
  await page.fill("#key", key);
  await page.click("button.primary");
  await page.waitForURL(root + "/console");
}

// Checks the automatic rules of WCAG 2.2 AA, that nothing is wider than the screen, and that no table is wider than its frame.
async function sound(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const faults = found.violations.map((fault) => `${fault.id}: ${fault.help}: ${fault.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  assert.deepEqual(faults, [], `${name}: ${page.url()}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.ok(!wide, `${name} is wider than the screen`);
  const cut = await page.evaluate(() => [...document.querySelectorAll("div.table")].filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => `${one.querySelector("caption")?.textContent}: ${one.scrollWidth} px in ${one.clientWidth} px`));
  assert.deepEqual(cut, [], `${name}: a table is wider than its frame`);
}

// Fields of a session that are as long as those of real customers.
const LONG = {
  deliveryId: "delivery-0f8fad5b-d9cb-469f-a165-70867728950e", externalRiderId: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  address: { line1: "Heinrich-von-Stephan-Straße 17a", city: "Freiburg im Breisgau", country: "DE", lat: 47.99, lng: 7.84 },
};

const steps = {
  async "a visitor without a sign-in is redirected to the sign-in page and back"() {
    const page = await visitor("light");
    await page.goto(root + "/console/deliveries?status=failed");
    await sound(page, "sign-in");
    await page.fill("#key", "sk_sandbox_wrong");
    await page.click("button.primary");
    assert.match(await page.textContent("#why"), /The key is incomplete/);
    await page.fill("#key", process.env.KEY);
    await page.keyboard.press("Enter");
    await page.waitForURL(root + "/console/deliveries?status=failed");
    assert.match(await page.textContent(".env"), /Sandbox/);
    await page.click("button:has-text('Sign out')");
    assert.match(await page.textContent("#why"), /signed out/);
    await page.context().close();
  },

  async "a webhook is registered and tested, and its secret is shown once"() {
    const page = await visitor("light");
    await signIn(page);
    await page.click("nav a:text-is('Webhook')");
    await page.fill("#url", url);
    await page.click("button:has-text('Register')");
    assert.match(await page.textContent(".once code"), /^whsec_/);
    await sound(page, "secret");
    await page.goto(root + "/console/webhook");
    assert.ok(!(await page.content()).includes("whsec_"));
    await page.click("button:has-text('Send sample event')");
    const sent = receiver.received.at(-1);
    assert.match(await page.textContent("main"), /Your endpoint accepted it: status 200/);
    assert.equal(await page.textContent("[aria-label=\"Request body\"] code"), sent.body);
    assert.ok((await page.textContent("[aria-label=\"Request headers\"]")).includes(sent.headers["x-service-signature"]));
    await sound(page, "sample");
    await page.screenshot({ path: `${pictures}/sample-light.png`, fullPage: true });
    await page.context().close();
  },

  async "a live session updates until its end"() {
    const page = await visitor("light");
    await signIn(page);
    const session = await begin(0);
    await session.send();
    // The script follows the session again by itself, because a browser gives up after such an answer.
    let refused = 0;
    await page.route("**/sessions/*/live", (route) => { refused += 1; return route.fulfill({ status: 429 }); }, { times: 2 });
    await page.goto(`${root}/console/sessions/${session.sessionId}`);
    await page.evaluate(() => { window.same = true; });
    const lossOf = async () => /^not updating since (\d\d [A-Z][a-z]{2} \d\d:\d\d:\d\d) UTC; reconnecting$/.exec(await page.textContent("#freshness"))?.[1];
    const loss = await until("the loss is shown", lossOf);
    await until("the stream is refused again", () => refused === 2);
    assert.equal(await lossOf(), loss, "the time is that of the loss");
    await until("the stream is open", async () => /live/.test(await page.textContent("#freshness")));
    await page.click("summary:has-text('Phone and telemetry')");
    const path = () => page.locator(".map .way").first().getAttribute("d");
    for (let moves = 0; moves < 3; moves++) {
      const before = (await path()) + (await page.locator(".timeline").getAttribute("data-length"));
      for (let batches = 0; batches < 5; batches++) await session.send();
      await until("the map moves", async () => (await path()) + (await page.locator(".timeline").getAttribute("data-length")) !== before);
    }
    await page.screenshot({ path: `${pictures}/live-light.png`, fullPage: true });
    await sound(page, "live");
    assert.ok(await page.evaluate(() => document.querySelector("details.card").open), "opened sections stay open");
    while (await session.send());
    await session.stop();
    await until("the scores are shown", async () => (await page.locator(".tiles").count()) > 0);
    assert.ok(await page.evaluate(() => window.same), "the page was never reloaded");
    assert.match(await page.textContent(".says"), /door/);
    await page.context().close();
  },

  async "a delivery that fails permanently is shown, explained, and retried"() {
    receiver.status = 503;
    const session = await begin(3);
    await session.send();
    const find = async () => (await call("GET", `/v1/webhooks/deliveries?sessionId=${session.sessionId}`)).data[0];
    const delivery = await until("it failed once", async () => { const one = await find(); return one?.attempts === 1 && one; });
    const page = await visitor("light");
    await signIn(page);
    await page.goto(`${root}/console/deliveries/${delivery.id}`);
    for (let attempts = 2; attempts <= 6; attempts++) {
      assert.match(await page.textContent(".title"), /retrying/);
      await page.click("button:has-text('Retry now')");
      await page.waitForSelector(".notice.bad:has-text('error status')");
      await until(`attempt ${attempts} is shown`, async () => (await page.locator("#attempts ~ .table tbody tr").count()) === attempts);
    }
    // The page may have been rendered before the last attempt was stored.
    await until("it is shown as failed", async () => (await reloaded(page)) && /failed/.test(await page.textContent(".title")));
    assert.match(await page.textContent("main"), /upstream is unavailable/);
    await sound(page, "failed delivery");
    await page.screenshot({ path: `${pictures}/failed-light.png`, fullPage: true });
    await page.click("nav a:has-text('Overview')");
    assert.equal(await page.textContent(".figure-card:has-text('Failed permanently') strong"), "1");
    await page.click(".figure-card:has-text('Failed permanently')");
    await page.click(`a[href$='${delivery.id}']`);
    receiver.status = 200;
    const asked = page.waitForResponse((response) => response.request().method() === "POST");
    await page.click("button:has-text('Retry now')");
    await asked;
    await until("it is delivered", async () => (await reloaded(page)) && /delivered/.test(await page.textContent(".title")));
    await session.stop();
    await page.context().close();
  },

  async "all matching deliveries are retried after a count"() {
    receiver.status = 500;
    const ids = [];
    for (const number of [1, 4, 5]) {
      const session = await whole(number);
      const delivery = await until("it failed once", async () => (await call("GET", `/v1/webhooks/deliveries?sessionId=${session.sessionId}&status=retrying`)).data[0]);
      for (let attempts = 2; attempts <= 6; attempts++) {
        await call("POST", `/v1/webhooks/deliveries/${delivery.id}/retry`);
        await until("it was attempted", async () => (await call("GET", `/v1/webhooks/deliveries/${delivery.id}`)).attempts === attempts);
      }
      ids.push(delivery.id);
    }
    receiver.status = 200;
    const page = await visitor("light");
    await signIn(page);
    await page.goto(root + "/console/deliveries?status=failed");
    await page.click("a:has-text('Retry all that match')");
    assert.match(await page.textContent(".figure"), /^3 deliveries match/);
    await sound(page, "preview");
    await page.screenshot({ path: `${pictures}/preview-light.png` });
    await page.click("button:has-text('Retry 3 now')");
    await until("it is done", async () => /Done/.test(await page.textContent("h1")));
    await until("nothing matches", async () => (await reloaded(page)) && /0 still match/.test(await page.textContent("main")));
    await page.screenshot({ path: `${pictures}/progress-light.png` });
    for (const id of ids) assert.equal((await call("GET", `/v1/webhooks/deliveries/${id}`)).status, "delivered");
    await page.context().close();
  },

  async "the keyboard selects a moment on map and curves"() {
    const page = await visitor("light");
    await signIn(page);
    const session = await whole(1);
    await page.goto(`${root}/console/sessions/${session.sessionId}`);
    await page.focus("#moment");
    for (let presses = 0; presses < 30; presses++) await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent(".slider output"), /at 00:30 · Height/);
    assert.ok(Number(await page.locator(".map .here").first().getAttribute("cx")) > 0);
    await page.click(".tile:has-text('Fraud')");
    assert.match(page.url(), /#why-fraudScore$/);
    await page.keyboard.press("Tab");
    await page.context().close();
  },

  async "times are shown in the zone that a visitor chooses"() {
    const page = await visitor("light", { timezoneId: "Asia/Kolkata" });
    await signIn(page);
    await page.goto(root + "/console/webhook");
    const created = page.locator("dl.facts time").first();
    const utc = await created.textContent();
    await page.selectOption("#zone", "local");
    assert.notEqual(await created.textContent(), utc);
    await page.reload();
    assert.match(await page.textContent("dl.facts"), /local time/);
    await page.selectOption("#zone", "utc");
    assert.equal(await created.textContent(), utc);
    await page.context().close();
  },

  async "the secret is rotated, and a key is created and revoked"() {
    const page = await visitor("light");
    await signIn(page);
    await page.goto(root + "/console/webhook");
    await page.click("button:text-is('Rotate')");
    assert.match(await page.textContent(".once code"), /^whsec_/);
    assert.match(await page.textContent("dl.facts"), /The previous secret stays valid/);
    await page.goto(root + "/console/keys");
    await page.click("button:has-text('Create key')");
    assert.match(await page.textContent(".once code"), /^pk_sandbox_/);
    await sound(page, "new key");
    await page.goto(root + "/console/keys");
    await page.click("tbody tr:has-text('pk_sandbox_') summary");
    await page.click("tbody tr:has-text('pk_sandbox_') button");
    assert.match(await page.textContent(".notice"), /is revoked/);
    await page.context().close();
  },

  async "every function works without script"() {
    const page = await visitor("light", { javaScriptEnabled: false });
    await signIn(page);
    await page.goto(root + "/console/deliveries");
    await page.selectOption("#event", "insight.updated");
    await page.click("button:has-text('Filter')");
    assert.match(page.url(), /event=insight.updated/);
    await page.click("tbody tr a >> nth=0");
    await page.click("button:has-text('Send again')");
    // The attempt is in flight, or was faster than the page.
    assert.match(await page.textContent("main"), /Sending an attempt now|Your endpoint accepted it\./);
    await page.goto(root + "/console/webhook");
    await page.click("button:has-text('Send sample event')");
    assert.match(await page.textContent("main"), /Your endpoint accepted it/);
    const session = await begin(2);
    await session.send();
    await page.goto(`${root}/console/sessions/${session.sessionId}`);
    assert.ok((await page.content()).includes('http-equiv="refresh"'));
    while (await session.send());
    await session.stop();
    await page.waitForSelector(".tiles");
    await page.click("button:has-text('Sign out')");
    await page.context().close();
  },

  async "the live environment says so, and shows nothing of the sandbox"() {
    const page = await visitor("light");
    await signIn(page, process.env.LIVE_KEY);
    assert.match(await page.textContent(".env"), /Production/);
    for (const list of ["sessions", "deliveries", "webhook"]) {
      await page.goto(`${root}/console/${list}`);
      assert.match(await page.textContent("main"), /No sessions yet|No webhook is registered|No webhook yet/);
      await sound(page, `empty ${list}`);
      await page.screenshot({ path: `${pictures}/empty-${list}-light.png` });
    }
    await page.context().close();
  },

  async "the parts of a form are aligned and have one style"() {
    const session = (await call("GET", "/v1/sessions?status=completed&limit=1")).data[0];
    for (const look of ["light", "narrow"]) {
      const page = await visitor(look);
      await signIn(page);
      for (const list of ["sessions?deliveryId=none", "deliveries?event=insight.updated"]) {
        await page.goto(`${root}/console/${list}`);
        const middles = await page.$$eval(".filters button, .clear", (all) => all.map((one) => one.getBoundingClientRect()).map(({ top, bottom }) => (top + bottom) / 2));
        assert.ok(middles.length === 2 && Math.abs(middles[0] - middles[1]) < 2, `${list} ${look}: ${middles}`);
      }
      await page.goto(`${root}/console/sessions/${session.sessionId}/explanation`);
      const [note, by] = await page.$$eval("#note, #by", (all) => all.map((one) => getComputedStyle(one)).map(({ font, border, borderRadius }) => ({ font, border, borderRadius })));
      assert.deepEqual(note, by);
      await sound(page, `explanation ${look}`);
      await page.screenshot({ path: `${pictures}/explanation-${look}.png`, fullPage: true });
      await page.context().close();
    }
  },

  async "every page, in light, in dark, and on a phone"() {
    receiver.status = 503;
    const running = await begin(0, LONG);
    await running.send();
    await whole(4);
    const sessions = (await call("GET", "/v1/sessions")).data;
    const of = (kind) => sessions.find((session) => session.deliveryId.startsWith(kind)).sessionId;
    const retrying = async () => (await call("GET", "/v1/webhooks/deliveries?status=retrying")).data[0];
    const delivery = (await until("an attempt has failed", retrying)).id;
    await call("POST", "/v1/privacy/requests", { requestId: "access-1", type: "access", subject: { sessionId: of("elevator") } });
    const pages = {
      overview: "/console", sessions: "/console/sessions", session: `/console/sessions/${of("elevator")}`, fraud: `/console/sessions/${of("spoofed")}`,
      recording: `/console/sessions/${running.sessionId}`, deliveries: "/console/deliveries", delivery: `/console/deliveries/${delivery}`,
      webhook: "/console/webhook", keys: "/console/keys", privacy: "/console/privacy", audit: "/console/audit", missing: "/console/sessions/ses_1",
    };
    for (const look of Object.keys(looks)) {
      const page = await visitor(look);
      await page.goto(root + "/console/sign-in");
      await page.screenshot({ path: `${pictures}/sign-in-${look}.png` });
      await sound(page, `sign-in ${look}`);
      await signIn(page);
      for (const [name, address] of Object.entries(pages)) {
        await page.goto(root + address);
        await sound(page, `${name} ${look}`);
        await page.screenshot({ path: `${pictures}/${name}-${look}.png`, fullPage: true });
      }
      await page.context().close();
    }
    await running.stop();
  },
};

const url = await listen();
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
await browser.close();
process.exit(failed ? 1 : 0);
