// The live parts of the console. Every page works without this script.

import { followStream, offerZoneChoice, showTimes } from "./shared.js";

const sentForms = new WeakSet();

// Enables the buttons that copy the text next to them. A button stays hidden if the browser has no clipboard.
function enableCopyButtons(root) {
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

// Refreshes the page after the delay that one of its parts requests, if any.
function scheduleRefresh(root) {
  const part = root.querySelector("[data-refresh]");
  if (part) setTimeout(() => refresh(), Number(part.dataset.refresh));
}

let isFetching = false;
let mustRefetch = false;

// Fetches the page again. Only one fetch runs at a time; a request during a fetch causes one more fetch.
async function refresh() {
  if (isFetching) {
    mustRefetch = true;
    return;
  }
  if (document.hidden) {
    document.addEventListener("visibilitychange", refresh, { once: true });
    return;
  }
  isFetching = true;
  mustRefetch = false;
  let waitMs = 0;
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (response.redirected) return location.assign(response.url);
    if (response.ok) replaceContent(await response.text());
    else waitMs = 3000;
  } catch {
    waitMs = 3000;
  } finally {
    isFetching = false;
  }
  if (waitMs || mustRefetch) setTimeout(refresh, waitMs || 500);
}

// Replaces the main part of this page with that of a fetched page and restores the focus. If only marked parts differ, it
// replaces only those, so that sections which a person has opened stay open.
function replaceContent(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const [current, next] = [document.querySelector("main"), page.querySelector("main")];
  if (!next) return;
  document.title = page.title;
  const stateOf = (root) => root.querySelector("[data-state]")?.dataset.state;
  const isLive = (root) => Boolean(root.querySelector("[data-live]"));
  const hasSameState = stateOf(current) === stateOf(next) && isLive(current) === isLive(next);
  const parts = [...current.querySelectorAll("[data-part]")];
  const hasSameParts = parts.length > 0 && hasSameState && parts.every((part) => next.querySelector("#" + part.id));
  const focused = document.activeElement?.id;
  const moment = document.querySelector(".cursor:not([hidden])") && document.getElementById("moment").value;
  if (hasSameParts) {
    for (const part of parts) {
      const other = next.querySelector("#" + part.id);
      if (part.innerHTML === other.innerHTML) continue;
      const open = [...part.querySelectorAll("details")].map((one) => one.open);
      part.replaceChildren(...other.childNodes);
      part.querySelectorAll("details").forEach((one, index) => { one.open = open[index] ?? false; });
      enhance(part);
    }
  } else {
    current.replaceChildren(...next.childNodes);
    enhance(current);
    followSession(current);
  }
  const slider = document.getElementById("moment");
  if (moment && slider) {
    slider.value = moment;
    slider.dispatchEvent(new Event("input"));
  }
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

// Follows a live session: fetches the page again when the stream reports a change.
let endStream = () => {};
function followSession(root) {
  endStream();
  const address = root.querySelector("[data-live]")?.dataset.live;
  if (!address) return;
  const freshness = document.getElementById("freshness");
  let wasOpen = false;
  endStream = followStream(address, freshness, {
    open: () => {
      freshness.textContent = "live";
      // The session may have changed between two streams.
      if (wasOpen) refresh();
      wasOpen = true;
    },
    changed: () => refresh(),
    end: () => { endStream(); refresh(); },
  }, refresh);
}

// Shows the moment under the pointer: a line through all rows, the values at that time, and the position of the phone.
function enableTimeline(root) {
  const timeline = root.querySelector(".timeline");
  if (!timeline) return;
  const slider = timeline.querySelector("#moment");
  const caption = timeline.querySelector(".slider output");
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
  const nearest = (points, second) => points.reduce((best, point) => Math.abs(point[0] - second) < Math.abs(best[0] - second) ? point : best, [Infinity]);
  const show = (second) => {
    const plot = timeline.querySelector(".row > svg").getBoundingClientRect();
    const box = timeline.getBoundingClientRect();
    cursor.hidden = false;
    cursor.style.left = plot.left - box.left + plot.width * second / length + "px";
    for (const { points, decimals, output } of curves) {
      const point = nearest(points, second);
      output.textContent = Math.abs(point[0] - second) < Math.max(15, length / 100) ? point[1].toFixed(decimals) : "–";
    }
    for (const { points, dot } of maps()) {
      const point = nearest(points, second);
      const isKnown = Math.abs(point[0] - second) < Math.max(15, length / 100);
      dot.setAttribute("cx", isKnown ? point[1] : -20);
      dot.setAttribute("cy", isKnown ? point[2] : -20);
    }
    slider.value = second;
    caption.textContent = "at " + stamp(second) + curves.map(({ output }) => " · " + output.previousSibling?.previousSibling?.textContent.trim() + " " + output.textContent).join("");
  };
  slider.disabled = false;
  slider.addEventListener("input", () => show(Number(slider.value)));
  timeline.addEventListener("pointermove", (event) => {
    if (event.target.closest(".slider")) return;
    const plot = timeline.querySelector(".row > svg").getBoundingClientRect();
    const share = (event.clientX - plot.left) / plot.width;
    if (share >= 0 && share <= 1) show(Math.round(share * length));
  });
  for (const span of document.querySelectorAll("[data-from]")) {
    span.closest("li").addEventListener("pointerenter", () => show(Number(span.dataset.from)));
  }
}

// Prevents a visitor from sending a form twice.
function preventDoubleSubmit() {
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (sentForms.has(event.target)) event.preventDefault();
    sentForms.add(event.target);
    event.target.setAttribute("aria-busy", "true");
  });
  // After a return from the next page, the visitor may send the form again.
  addEventListener("pageshow", () => {
    for (const form of document.forms) {
      sentForms.delete(form);
      form.removeAttribute("aria-busy");
    }
  });
}

function enhance(root) {
  showTimes(root);
  enableCopyButtons(root);
  scheduleRefresh(root);
  enableTimeline(root);
}

preventDoubleSubmit();
offerZoneChoice();
enhance(document);
followSession(document);
