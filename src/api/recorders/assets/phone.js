// The page behind a recorder's link: live status, and a recorder in the browser.
//
// The recorder pushes messages in the format of Sensor Logger, numbered from 0. It stores each message on the phone before it
// sends it, and removes it once the service has answered 200, which the service does when the message is durable. So a message
// is lost neither without a network nor when the page or the service is restarted; one that is sent twice changes nothing.

const base = location.pathname.replace(/\/+$/, "");
const byId = (id) => document.getElementById(id);
const STATUS_EVERY_MS = 3_000;
const FLUSH_EVERY_MS = 1_000;
const MOTION_EVERY_MS = 40;
const FIX_EXPECTED_MS = 3_000;
const MOTION_EXPECTED_MS = 5_000;
const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 15_000;
const SEND_MS_MAX = 20_000;
// Two hours of messages; beyond that the recording ends, so that the phone's storage stays bounded.
const WAITING_MAX = 7_200;

// ---- Status and insight -----------------------------------------------------------------------------------------------

const REASONS = {
  FULL_ATTEMPT: "went to the door and stayed there",
  PARTIAL_ATTEMPT: "came near, but did not stay at the door",
  NO_ATTEMPT: "never came near on foot",
  POSSIBLE_NO_ATTEMPT: "perhaps never came near on foot",
  INSUFFICIENT_DATA: "too little data",
  DELIVERED_TO_RIGHT_DOORSTEP: "delivered to the right door",
  POSSIBLE_LOBBY_HANDOFF: "perhaps handed over in the lobby",
  POSSIBLE_WRONG_ADDRESS: "perhaps at another address",
  SESSION_TIMEOUT: "ended because nothing arrived",
  TELEMETRY_STREAM_INTERRUPTED: "the data has a gap",
};
const EVENTS = {
  DRIVING: "Driving", WALKING: "Walking", STOPPED: "Stopped", STAIRS: "Stairs", ELEVATOR: "Elevator", BACKTRACKING: "Turned back",
  GATE: "Gate or entrance", GPS_DEGRADED: "Position inaccurate", GPS_LOST: "Position lost", GPS_RESTORED: "Position found again",
};

const yesNo = (value) => (value === null || value === undefined ? "not measured" : value ? "yes" : "no");
const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
const span = (seconds) => (seconds === null || seconds === undefined ? "not measured" : `${clock(seconds)} min`);

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function facts({ status, summary, reasonCodes, metrics }) {
  if (status === "processing") return [["Result", "not yet: the delivery is in progress"]];
  if (!summary) return [["Result", "the delivery could not be scored"]];
  return [
    ["Result", reasonCodes.map((code) => REASONS[code] ?? code).join(", ")],
    ["Right door", yesNo(summary.rightDoorstep)],
    ["Duration", span(summary.totalDurationSec)],
    ["Entrance to door", span(metrics?.timeFromEntranceToDoorSec)],
    ["Time at the door", span(metrics?.timeAtDoorSec)],
    ["Floors", summary.floorsClimbed ?? "not measured"],
    ["Elevator", yesNo(summary.elevatorUsed)],
    ["Visits to the door", summary.attemptCycles],
    ["Effort (0 to 1)", summary.frictionScore.toFixed(2)],
    ["Completeness of the data (0 to 1)", summary.visibilityScore.toFixed(2)],
  ];
}

function showInsight(insight) {
  const isShown = Boolean(insight) && (insight.status !== "processing" || insight.events.length > 0);
  byId("insight").hidden = !isShown;
  if (!isShown) return;
  byId("insight").dataset.status = insight.status;
  byId("facts").replaceChildren(...facts(insight).flatMap(([name, value]) => [element("dt", name), element("dd", String(value))]));
  byId("events").replaceChildren(...insight.events.map((event) => {
    const line = element("li", "");
    line.append(element("span", EVENTS[event.type] ?? event.type));
    line.append(element("span", event.tEnd === null ? `from ${clock(event.tStart)}` : `${clock(event.tStart)} to ${clock(event.tEnd)}`));
    return line;
  }));
}

async function showStatus() {
  if (document.hidden) return;
  try {
    const answer = await fetch(`${base}/status`, { credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(SEND_MS_MAX) });
    const body = await answer.json();
    byId("status").textContent = answer.ok ? body.text : body.detail;
    if (answer.ok) showInsight(body.insight);
  } catch {
    byId("status").textContent = "Porchlight cannot be reached at the moment.";
  }
}

// ---- Messages stored on the phone ----------------------------------------------------------------------------------------

let database;
// The recording: its id, the number of its next message, and the counts that the page shows.
let state = { recording: null, next: 0, recorded: 0, acknowledged: 0, isActive: false };

const finished = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = resolve;
  transaction.onabort = transaction.onerror = () => reject(transaction.error);
});
const result = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

async function openDatabase() {
  const request = indexedDB.open(`porchlight ${base}`, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore("messages");
    request.result.createObjectStore("state");
  };
  database = await result(request);
  const read = database.transaction("state").objectStore("state");
  state = (await result(read.get("now"))) ?? state;
}

// Changes the messages and the state in one transaction, so that no crash separates them.
async function store(change) {
  const transaction = database.transaction(["messages", "state"], "readwrite", { durability: "strict" });
  change(transaction.objectStore("messages"));
  transaction.objectStore("state").put(state, "now");
  await finished(transaction);
}

async function oldest() {
  const messages = database.transaction("messages").objectStore("messages");
  const cursor = await result(messages.openCursor());
  return cursor && { key: cursor.key, ...cursor.value };
}

const countWaiting = () => result(database.transaction("messages").objectStore("messages").count());

// ---- Sending -------------------------------------------------------------------------------------------------------------

let isSending = false;
let isRefused = false;
let retryMs = RETRY_MS_MIN;
let retry;

async function sentence(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).detail ?? text;
  } catch {
    return text;
  }
}

// Sends the oldest message; returns whether another one may follow at once.
async function sendOldest() {
  const message = await oldest();
  if (!message) return false;
  const answer = await fetch(`${base}/sensor-logger`, {
    method: "POST", headers: { "content-type": "application/json" }, body: message.body, credentials: "omit",
    signal: AbortSignal.timeout(SEND_MS_MAX),
  });
  if (answer.ok) {
    state.acknowledged += message.positions;
    await store((messages) => messages.delete(message.key));
    retryMs = RETRY_MS_MIN;
    await showCounts();
    return true;
  }
  const isTemporary = answer.status >= 500 || answer.status === 408 || answer.status === 429;
  if (isTemporary) throw new Error(String(answer.status));
  isRefused = true;
  say(await sentence(answer));
  return false;
}

async function send() {
  if (isSending || isRefused) return;
  isSending = true;
  clearTimeout(retry);
  try {
    while (await sendOldest());
  } catch {
    retry = setTimeout(send, retryMs);
    retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
  } finally {
    isSending = false;
  }
}

// ---- Recording -----------------------------------------------------------------------------------------------------------

let payload = [];
let positions = 0;
let watch;
let timer;
let wakeLock;
let lastFixMs = 0;
let lastMotionMs = 0;
// The time by the clock of the positions; the clock of the events stands still while the phone sleeps.
let motionArrivedMs = 0;
let hiddenAtMs;
let isPositionDenied = false;
// "refused" by the person, "missing" although nobody refused it, or undefined while it arrives.
let motionFault;
// Apple's browsers report acceleration with the opposite sign.
const accelSign = navigator.vendor.startsWith("Apple") ? -1 : 1;

// Nanoseconds since 1970, as text: a number of JavaScript is too small for them.
const nanoseconds = (ms) => `${Math.round(ms * 1_000)}000`;
const note = (name, ms, values) => payload.push({ name, time: nanoseconds(ms), values });
const rounded = (value) => Math.round(value * 10_000) / 10_000;

function say(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

function onPosition({ coords, timestamp }) {
  if (watch === undefined) return;
  lastFixMs = Date.now();
  positions += 1;
  note("location", timestamp, {
    latitude: coords.latitude, longitude: coords.longitude, horizontalAccuracy: coords.accuracy,
    altitude: coords.altitude, speed: coords.speed, bearing: coords.heading,
  });
}

// Without a position there is nothing to record: stops, and says so. A permission that is revoked later also ends here.
function onPositionError(error) {
  if (error.code !== error.PERMISSION_DENIED || watch === undefined) return;
  isPositionDenied = true;
  halt();
  say("Allow the location for this page in the settings of the browser, and for the browser in the settings of the phone. "
    + "Then load this page again, and start or continue the recording.");
  flush();
}

const MOTION_FAULTS = {
  refused: "The motion of the phone is not recorded, because it was not allowed. To allow it, close the browser, open this link again, "
    + "and tap “Allow”.",
  missing: "The browser does not report the motion of the phone. Allow motion sensors for this page in the settings of the browser.",
};

function setMotionFault(fault) {
  if (fault === motionFault) return;
  motionFault = fault;
  say(MOTION_FAULTS[fault] ?? "");
  showButtons();
}

function onMotion(event) {
  const ms = performance.timeOrigin + event.timeStamp;
  const accel = event.accelerationIncludingGravity;
  if (ms - lastMotionMs < MOTION_EVERY_MS || typeof accel?.x !== "number") return;
  lastMotionMs = ms;
  motionArrivedMs = Date.now();
  setMotionFault(undefined);
  const signed = (value) => rounded(accelSign * value);
  note("totalacceleration", ms, { x: signed(accel.x), y: signed(accel.y), z: signed(accel.z) });
  const turn = event.rotationRate;
  if (typeof turn?.alpha !== "number") return;
  // The browser's degrees per second, in radians per second: beta turns about x, gamma about y, alpha about z.
  const radians = (degrees) => rounded(degrees * Math.PI / 180);
  note("gyroscope", ms, { x: radians(turn.beta), y: radians(turn.gamma), z: radians(turn.alpha) });
}

async function flush() {
  // The browser reports no position while the phone rests: ask for one, so that silence means a lost position.
  if (watch !== undefined && Date.now() - lastFixMs > FIX_EXPECTED_MS) {
    navigator.geolocation.getCurrentPosition(onPosition, onPositionError, { enableHighAccuracy: true, maximumAge: 0, timeout: FIX_EXPECTED_MS });
  }
  if (watch !== undefined && motionFault === undefined && Date.now() - motionArrivedMs > MOTION_EXPECTED_MS) setMotionFault("missing");
  if (payload.length === 0) return;
  const message = { messageId: state.next, sessionId: state.recording, deviceId: "browser", payload };
  const value = { body: JSON.stringify(message), positions };
  const key = [state.recording, state.next];
  state.next += 1;
  state.recorded += positions;
  [payload, positions] = [[], 0];
  try {
    await store((messages) => messages.put(value, key));
  } catch {
    say("The phone's storage for this page is full. The recording has stopped.");
    halt();
  }
  await showCounts();
  send();
  if (state.isActive && (await countWaiting()) >= WAITING_MAX) {
    say("Two hours of data wait on this phone. The recording has stopped; keep the page open to send them.");
    halt();
  }
}

async function keepAwake() {
  try {
    wakeLock = await navigator.wakeLock?.request("screen");
  } catch {
    // Low battery, or a hidden page: the phone may lock itself.
  }
}

function run() {
  isPositionDenied = false;
  motionArrivedMs = Date.now();
  watch = navigator.geolocation.watchPosition(onPosition, onPositionError, { enableHighAccuracy: true, maximumAge: 0 });
  addEventListener("devicemotion", onMotion);
  timer = setInterval(flush, FLUSH_EVERY_MS);
  keepAwake();
}

// Stops the sensors. The messages stay until the service has them.
function halt() {
  if (watch !== undefined) navigator.geolocation.clearWatch(watch);
  watch = undefined;
  removeEventListener("devicemotion", onMotion);
  clearInterval(timer);
  wakeLock?.release();
  wakeLock = undefined;
  showButtons();
}

// Browsers that do not ask for permission report the motion without it, or not at all.
async function askForMotion() {
  if (typeof DeviceMotionEvent === "undefined" || !DeviceMotionEvent.requestPermission) return "granted";
  return DeviceMotionEvent.requestPermission().catch(() => "denied");
}

async function start() {
  say("");
  isRefused = false;
  const motion = await askForMotion();
  if (!state.isActive) {
    const random = crypto.getRandomValues(new Uint32Array(2)).join("-");
    state = { recording: `${Date.now()}-${random}`, next: 0, recorded: 0, acknowledged: 0, isActive: true };
  }
  run();
  motionFault = undefined;
  setMotionFault(motion === "granted" ? undefined : "refused");
  showButtons();
  await showCounts();
}

async function end(word) {
  note("annotation", Date.now(), { text: word });
  state.isActive = false;
  isPositionDenied = false;
  halt();
  await flush();
  showButtons();
}

// ---- The page ------------------------------------------------------------------------------------------------------------

function showButtons() {
  const isRunning = watch !== undefined;
  byId("start").hidden = isRunning;
  byId("start").textContent = state.isActive ? "Continue recording" : "Start recording";
  byId("delivered").hidden = byId("stop").hidden = !state.isActive;
  byId("counts").hidden = state.recording === null;
  byId("advice").textContent = isPositionDenied ? "Not recording: this page may not use the location."
    : isRunning ? `${motionFault ? "Recording only the position" : "Recording"}. Keep this page open, and the screen on.`
    : state.isActive ? "The recording was interrupted. Continue, or say how it ended."
    : "Start when you set off, and tap “Delivered” at the door.";
}

async function showCounts() {
  byId("recorded").textContent = String(state.recorded);
  byId("acknowledged").textContent = String(state.acknowledged);
  byId("waiting").textContent = String(await countWaiting());
}

function onVisibility() {
  if (!document.hidden) showStatus();
  if (watch === undefined) return;
  if (document.hidden) {
    hiddenAtMs = Date.now();
    flush();
    return;
  }
  keepAwake();
  if (Date.now() - hiddenAtMs > FIX_EXPECTED_MS) say("Nothing was recorded while the page was hidden.");
}

function copyButtons() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1_500);
    });
  }
}

async function prepare() {
  await openDatabase();
  byId("start").addEventListener("click", start);
  byId("delivered").addEventListener("click", () => end("delivered"));
  byId("stop").addEventListener("click", () => end("stop"));
  addEventListener("online", () => { retryMs = RETRY_MS_MIN; send(); });
  showButtons();
  await showCounts();
  send();
}

for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
copyButtons();
document.addEventListener("visibilitychange", onVisibility);
setInterval(showStatus, STATUS_EVERY_MS);
showStatus();
if (!isSecureContext || !navigator.geolocation || !navigator.locks) {
  byId("advice").textContent = "Browsers allow access to the location only on pages that are served over HTTPS. Use an app, "
    + "or open this link over HTTPS.";
} else {
  // One tab records: the numbers of the messages must not repeat.
  navigator.locks.request(`porchlight ${base}`, { ifAvailable: true }, async (lock) => {
    if (!lock) {
      byId("advice").textContent = "Another tab with this link is already recording.";
      return;
    }
    await prepare();
    await new Promise(() => {});
  });
}
