// A phone whose location or motion is not allowed: the page says so and explains the next step. If a step fails, the
// script prints a sentence and exits with code 1.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { call, until } from "./acts.mjs";

const root = process.env.CONSOLE;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const address = { line1: "Hafenstraße 12", city: "Berlin", country: "DE", lat: 52.52, lng: 13.405 };
const geolocation = { latitude: 52.52, longitude: 13.405, accuracy: 5 };

// Opens a new link on a phone. `prepare` gets the page before it loads.
async function open(permissions, prepare = async () => {}) {
  const { url } = await call("POST", "/v1/recorders", { externalRiderId: "me", address });
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, permissions, geolocation });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => { throw new Error(`${page.url()}: ${error}`); });
  await prepare(page);
  await page.goto(root + new URL(url).pathname);
  await page.waitForSelector("#start:visible");
  return page;
}

const advice = (page, expected) => until(`the advice matches ${expected}`, async () => expected.test(await page.textContent("#advice")));
const notice = (page, expected) => until(`the notice matches ${expected}`, async () => expected.test(await page.textContent("#notice")));
const motion = (page, z = 9.8) => page.evaluate((z) => {
  setInterval(() => dispatchEvent(new DeviceMotionEvent("devicemotion", { accelerationIncludingGravity: { x: 0, y: 0, z } })), 50);
}, z);

// The location is denied from the start.
const denied = await open([]);
await denied.click("#start");
await advice(denied, /^Not recording/);
await notice(denied, /Allow the location .* settings/);
assert.ok(await denied.isVisible("#start"), "the recording can start again");
await denied.context().grantPermissions(["geolocation"]);
await denied.click("#start");
await motion(denied);
await advice(denied, /^Recording\. Keep/);
assert.ok(await denied.isHidden("#notice"));

// The location is revoked while the page records.
await until("a position", async () => Number(await denied.textContent("#recorded")) > 0);
await denied.context().clearPermissions();
await advice(denied, /^Not recording/);
await until("all messages are sent", async () => (await denied.textContent("#waiting")) === "0");
await denied.click("#delivered");
await advice(denied, /^Start when you set off/);

const answer = (motion) => (page) => page.addInitScript((given) => {
  DeviceMotionEvent.requestPermission = async () => given;
}, motion);

// A phone whose user refuses the motion records the position.
const refused = await open(["geolocation"], answer("denied"));
await refused.click("#start");
await advice(refused, /^Recording only the position/);
await notice(refused, /open this link again, and tap “Allow”/);
await until("a position", async () => Number(await refused.textContent("#recorded")) > 0);

// A browser that gives no motion, and later does.
const silent = await open(["geolocation"], answer("granted"));
await silent.click("#start");
await advice(silent, /^Recording only the position/);
await notice(silent, /motion sensors .* settings/);
await motion(silent);
await advice(silent, /^Recording\. Keep/);
assert.ok(await silent.isHidden("#notice"));

// The acceleration has the same sign on every phone: Apple's browsers report the opposite one.
async function heightOf(vendor, z) {
  const page = await open(["geolocation"], async (page) => {
    await answer("granted")(page);
    await page.addInitScript((name) => Object.defineProperty(navigator, "vendor", { get: () => name }), vendor);
  });
  const isMotion = (request) => request.url().endsWith("/sensor-logger") && request.postData().includes("totalacceleration");
  const sent = page.waitForRequest(isMotion);
  await page.click("#start");
  await motion(page, z);
  const { payload } = (await sent).postDataJSON();
  return payload.find(({ name }) => name === "totalacceleration").values.z;
}
assert.equal(await heightOf("Google Inc.", 9.8), 9.8);
assert.equal(await heightOf("Apple Computer, Inc.", -9.8), 9.8);

await browser.close();
process.exit(0);
