// The live parts of the console. Every page works without this script.

const busy = new WeakSet();

// Buttons that copy the text next to them. A button stays hidden if the browser has no clipboard.
function copying(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      const label = button.textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }
}

// A part of the page that refreshes until a fetched page no longer requests it.
function refreshing(root) {
  const part = root.querySelector("[data-refresh]");
  if (part) setTimeout(() => refresh(), Number(part.dataset.refresh));
}

let asking = false;
let again = false;

// Fetches the page again. Only one fetch runs at a time; a request during a fetch causes one more fetch.
async function refresh() {
  if (asking) {
    again = true;
    return;
  }
  if (document.hidden) {
    document.addEventListener("visibilitychange", refresh, { once: true });
    return;
  }
  asking = true;
  again = false;
  let wait = 0;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected) return location.assign(answer.url);
    if (answer.ok) swap(await answer.text());
    else wait = 3000;
  } catch {
    wait = 3000;
  } finally {
    asking = false;
  }
  if (wait || again) setTimeout(refresh, wait || 500);
}

// Replaces the main part of this page with that of a fetched page and restores the focus. If only marked parts differ, it
// replaces only those, so that sections which a person has opened stay open.
function swap(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const [now, next] = [document.querySelector("main"), page.querySelector("main")];
  if (!next) return;
  document.title = page.title;
  const state = (root) => root.querySelector("[data-state]")?.dataset.state + Boolean(root.querySelector("[data-live]"));
  const parts = [...now.querySelectorAll("[data-part]")];
  const fits = parts.length > 0 && state(now) === state(next) && parts.every((part) => next.querySelector("#" + part.id));
  const focused = document.activeElement?.id;
  const moment = document.querySelector(".cursor:not([hidden])") && document.getElementById("moment").value;
  if (fits) {
    for (const part of parts) {
      const other = next.querySelector("#" + part.id);
      if (part.innerHTML === other.innerHTML) continue;
      const open = [...part.querySelectorAll("details")].map((one) => one.open);
      part.replaceChildren(...other.childNodes);
      part.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? false; });
      alive(part);
    }
  } else {
    now.replaceChildren(...next.childNodes);
    alive(now);
    living(now);
  }
  const slider = document.getElementById("moment");
  if (moment && slider) {
    slider.value = moment;
    slider.dispatchEvent(new Event("input"));
  }
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

// A live session: when the stream reports a change, the script fetches the page again. When the connection is lost, the
// page shows the time since which it does not update.
let line;
function living(root) {
  const title = root.querySelector("[data-live]");
  line?.close();
  if (!title) return;
  const fresh = document.getElementById("freshness");
  const say = (words, stale) => {
    fresh.textContent = words;
    title.toggleAttribute("data-stale", stale);
  };
  line = new EventSource(title.dataset.live);
  line.addEventListener("open", () => say("live", false));
  line.addEventListener("changed", () => refresh());
  line.addEventListener("end", () => { line.close(); refresh(); });
  line.onerror = () => say("not updating since " + new Date().toLocaleTimeString() + "; reconnecting", true);
}

// The moment under the pointer: a line through all rows, the values at that time, and the position of the phone.
function timing(root) {
  const timeline = root.querySelector(".timeline");
  if (!timeline) return;
  const slider = timeline.querySelector("#moment");
  const said = timeline.querySelector(".slider output");
  const cursor = document.createElement("div");
  cursor.className = "cursor";
  cursor.hidden = true;
  timeline.append(cursor);
  const curves = [...timeline.querySelectorAll("[data-series]")].map((row) => ({
    points: JSON.parse(row.dataset.series), decimals: Number(row.dataset.decimals), output: row.querySelector("output"),
  }));
  // Queried each time, because the map of a live session is replaced without the curves.
  const maps = () => [...document.querySelectorAll("[data-track]")].map((map) => ({
    points: JSON.parse(map.dataset.track), dot: map.querySelector(".here"),
  }));
  const length = Number(timeline.dataset.length);
  const stamp = (second) => String(Math.floor(second / 60)).padStart(2, "0") + ":" + String(second % 60).padStart(2, "0");
  const near = (points, second) => points.reduce((best, point) => Math.abs(point[0] - second) < Math.abs(best[0] - second) ? point : best, [Infinity]);
  const show = (second) => {
    const plot = timeline.querySelector(".row > svg").getBoundingClientRect();
    const box = timeline.getBoundingClientRect();
    cursor.hidden = false;
    cursor.style.left = plot.left - box.left + plot.width * second / length + "px";
    for (const { points, decimals, output } of curves) {
      const point = near(points, second);
      output.textContent = Math.abs(point[0] - second) < Math.max(15, length / 100) ? point[1].toFixed(decimals) : "–";
    }
    for (const { points, dot } of maps()) {
      const point = near(points, second);
      const known = Math.abs(point[0] - second) < Math.max(15, length / 100);
      dot.setAttribute("cx", known ? point[1] : -20);
      dot.setAttribute("cy", known ? point[2] : -20);
    }
    slider.value = second;
    said.textContent = "at " + stamp(second) + curves.map(({ output }) => " · " + output.previousSibling?.previousSibling?.textContent.trim() + " " + output.textContent).join("");
  };
  slider.disabled = false;
  slider.addEventListener("input", () => show(Number(slider.value)));
  timeline.addEventListener("pointermove", (event) => {
    if (event.target.closest(".slider")) return;
    const plot = timeline.querySelector(".row > svg").getBoundingClientRect();
    const part = (event.clientX - plot.left) / plot.width;
    if (part >= 0 && part <= 1) show(Math.round(part * length));
  });
  for (const when of document.querySelectorAll("[data-from]")) {
    when.closest("li").addEventListener("pointerenter", () => show(Number(when.dataset.from)));
  }
}

// Prevents a form from being sent twice.
function sending() {
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (busy.has(event.target)) event.preventDefault();
    busy.add(event.target);
    event.target.setAttribute("aria-busy", "true");
  });
  // Back from the next page: the form may be sent again.
  addEventListener("pageshow", () => {
    for (const form of document.forms) {
      busy.delete(form);
      form.removeAttribute("aria-busy");
    }
  });
}

// Times are rendered in UTC. A visitor can choose the zone of the browser; the choice stays in this browser.
const ZONE = "porchlight.zone";
function isLocal() {
  try {
    return localStorage.getItem(ZONE) === "local";
  } catch {
    return false;
  }
}

function inZone(time) {
  const at = new Date(time.dateTime);
  const part = (options) => new Intl.DateTimeFormat("en-GB", options).format(at);
  const day = part({ day: "2-digit" }) + " " + part({ month: "short" }).slice(0, 3);
  const isNear = time.dataset.utc.includes(":");
  return day + " " + (isNear ? part({ hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }) : part({ year: "numeric" }));
}

function zoned(root) {
  const local = isLocal();
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (!local && !time.dataset.utc) continue;
    time.dataset.utc ??= time.textContent;
    time.textContent = local ? inZone(time) : time.dataset.utc;
  }
  for (const name of root.querySelectorAll("[data-zone]")) name.textContent = local ? "local time" : "UTC";
}

function choosing() {
  const choice = document.getElementById("zone");
  if (!choice) return;
  choice.parentElement.hidden = false;
  choice.value = isLocal() ? "local" : "utc";
  choice.addEventListener("change", () => {
    try {
      localStorage.setItem(ZONE, choice.value);
    } catch {
      choice.value = "utc";
    }
    zoned(document);
  });
}

function alive(root) {
  zoned(root);
  copying(root);
  refreshing(root);
  timing(root);
}

sending();
choosing();
alive(document);
living(document);
