// A delivery recorded with a phone's browser: link, recording, network cut, insight. Ends with 1 and a sentence when a step fails.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { call, until } from "./acts.mjs";

const root = process.env.CONSOLE;
const pictures = process.env.SCREENSHOTS;
const offlineSeconds = Number(process.env.OFFLINE_SECONDS);
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
fs.mkdirSync(pictures, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const requests = [];

async function open(options) {
  const context = await browser.newContext({ timezoneId: "UTC", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(120_000);
  context.on("request", (request) => requests.push(request.url()));
  const page = await context.newPage();
  page.on("pageerror", (error) => { throw new Error(`${page.url()}: ${error}`); });
  page.on("console", (message) => {
    const isExpected = /ERR_INTERNET_DISCONNECTED|status of (401|422)/.test(message.text());
    if (message.type() === "error" && !isExpected) throw new Error(`${page.url()}: ${message.text()}`);
  });
  return page;
}

async function sound(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((fault) => `${fault.id}: ${fault.nodes[0].html}`), [], name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML.slice(0, 120)));
  assert.deepEqual(wide.slice(0, 5), [], `${name} is wider than the screen`);
}

const picture = (page, name) => page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
const number = async (page, id) => Number(await page.textContent(`#${id}`));

// A phone in a hand: gravity, and a little motion.
let sensors;
async function hold(page) {
  const session = await page.context().newCDPSession(page);
  sensors = session;
  for (const type of ["accelerometer", "linear-acceleration", "gyroscope"]) {
    await session.send("Emulation.setSensorOverrideEnabled", { enabled: true, type });
    const xyz = type === "accelerometer" ? { x: 0.3, y: 1.2, z: 9.7 } : { x: 0.1, y: 0.1, z: 0.1 };
    await session.send("Emulation.setSensorOverrideReadings", { type, reading: { xyz } });
  }
}

// Walks north at 1.4 m/s with two steps a second, for some seconds.
let walked = 0;
async function walk(page, seconds) {
  const until = Date.now() + seconds * 1_000;
  for (let second = -1; Date.now() < until;) {
    const now = Math.floor((until - Date.now()) / 1_000);
    if (now !== second) {
      second = now;
      walked += 1.4;
      await page.context().setGeolocation({ latitude: 52.52 + walked / 111_320, longitude: 13.405, accuracy: 5 });
    }
    const swing = Math.sin((Date.now() / 1_000) * 2 * Math.PI * 2);
    const xyz = { x: 0.3, y: 1.2 + swing, z: 9.7 + 3 * swing };
    await sensors.send("Emulation.setSensorOverrideReadings", { type: "accelerometer", reading: { xyz } });
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

// The console makes the link.
const desk = await open({ viewport: { width: 1360, height: 900 }, colorScheme: "light" });
await desk.goto(`${root}/console/sign-in`);
await desk.fill("#key", process.env.KEY);
await desk.click("button.primary");
await desk.click("nav a:text-is('Try it with a phone')");
await desk.fill("#rider", "me");
await desk.fill("#position", "somewhere");
await desk.click("button:text-is('Create link')");
assert.match(await desk.textContent(".notice.bad"), /latitude and longitude/);
assert.equal(await desk.inputValue("#rider"), "me");
await sound(desk, "form");
await picture(desk, "phone-form-light");
await desk.fill("#street", "Hafenstraße 12");
await desk.fill("#city", "Berlin");
await desk.fill("#position", "52.5204, 13.405");
await desk.fill("#floor", "3");
await desk.click("button:text-is('Create link')");
await desk.waitForSelector(".qr svg");
assert.match(await desk.textContent("#recorder-status"), /Nothing received yet/);
await sound(desk, "link");
const link = await desk.textContent("#link ~ .copy code");
assert.ok(link.startsWith(`${root}/r/`), link);
const recorderId = desk.url().split("/").at(-1);

// The phone opens it.
const options = {
  viewport: { width: 390, height: 844 }, hasTouch: true, permissions: ["geolocation", "accelerometer", "gyroscope"],
  geolocation: { latitude: 52.52, longitude: 13.405, accuracy: 5 },
};
const phone = await open({ ...options, colorScheme: "light" });
await phone.goto(link);
await phone.waitForSelector("#start:visible");
await sound(phone, "phone");
await picture(phone, "phone-page-light");
await hold(phone);
await phone.click("#start");
await walk(phone, 8);
await until("the phone page shows the data", async () => /Receiving: position \d/.test(await phone.textContent("#status")));
await until("the console shows the data", async () => /Receiving: position/.test(await desk.textContent("#recorder-status")));
assert.match(await phone.textContent("#status"), /motion \d/);
await sound(phone, "recording");
await picture(phone, "phone-recording-light");
await picture(desk, "phone-link-light");

// The network is cut.
await phone.context().setOffline(true);
await walk(phone, 2);
const acknowledged = await number(phone, "acknowledged");
await walk(phone, offlineSeconds);
assert.equal(await number(phone, "acknowledged"), acknowledged, "nothing is acknowledged without a network");
assert.ok((await number(phone, "recorded")) >= acknowledged + offlineSeconds / 2, "it goes on recording");
assert.ok((await number(phone, "waiting")) >= offlineSeconds / 2, "the messages wait");
await picture(phone, "phone-offline-light");
await phone.context().setOffline(false);
await until("all messages are sent", async () => (await number(phone, "waiting")) <= 1);
assert.ok((await number(phone, "acknowledged")) > acknowledged);

// The page is loaded again in the middle of the recording.
const recorded = await number(phone, "recorded");
await phone.reload();
await phone.waitForSelector("#start:text-is('Continue recording')");
await phone.click("#start");
await walk(phone, 8);
assert.ok((await number(phone, "recorded")) > recorded, "the same recording continues");
await phone.click("#delivered");
await until("all messages are sent", async () => (await number(phone, "waiting")) === 0);
assert.equal(await number(phone, "acknowledged"), await number(phone, "recorded"));
await phone.waitForSelector("#insight[data-status=ready]");
assert.match(await phone.textContent("#facts"), /Duration/);
await sound(phone, "insight");
await picture(phone, "phone-insight-light");

// Everything that the phone has seen acknowledged is in one session.
const { sessionId } = await call("GET", `/v1/recorders/${recorderId}`);
const session = await call("GET", `/v1/sessions/${sessionId}`);
assert.equal(session.status, "completed");
const sent = await call("GET", `/v1/sessions/${sessionId}/acknowledged`);
const messages = await phone.evaluate(() => new Promise((resolve) => {
  const request = indexedDB.open(`porchlight ${location.pathname}`);
  request.onsuccess = () => {
    const read = request.result.transaction("state").objectStore("state").get("now");
    read.onsuccess = () => resolve(read.result.next);
  };
}));
assert.deepEqual({ nextSeq: sent.nextSeq, missing: sent.missing }, { nextSeq: messages, missing: [] });
const insight = await call("GET", `/v1/sessions/${sessionId}/insights`);
assert.ok(!insight.reasonCodes.includes("TELEMETRY_STREAM_INTERRUPTED"), "the cut left no gap");
assert.ok(insight.summary.totalDurationSec >= 16 + offlineSeconds);

// Dark, on both screens; then the link is revoked.
const dark = await open({ ...options, colorScheme: "dark" });
await dark.goto(link);
await dark.waitForSelector("#insight[data-status=ready]");
await sound(dark, "dark");
await picture(dark, "phone-page-dark");
await desk.setViewportSize({ width: 390, height: 844 });
await desk.reload();
await sound(desk, "narrow link");
await picture(desk, "phone-link-narrow");
await desk.emulateMedia({ colorScheme: "dark" });
await desk.setViewportSize({ width: 1360, height: 900 });
await desk.reload();
await sound(desk, "dark link");
await picture(desk, "phone-link-dark");
await desk.click("summary:has-text('Revoke this link')");
await desk.click("button:text-is('Revoke')");
assert.match(await desk.textContent(".notice"), /revoked/);
await until("the phone learns of it", async () => /expired or was removed/.test(await phone.textContent("#status")));

const foreign = requests.filter((url) => !url.startsWith(`${root}/`) && !url.startsWith("data:"));
assert.deepEqual(foreign, [], "requests to other origins");
console.log(`${messages} messages, ${await number(phone, "acknowledged")} positions, ${offlineSeconds} s without a network; ` +
  `${requests.length} requests, 0 to other origins`);
await browser.close();
process.exit(0);
