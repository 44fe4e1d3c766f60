// The parts that the scripts of the console share: times in the zone that a visitor chooses, and streams.

// The pages contain times in UTC. A visitor can choose the browser's zone instead; the browser stores the choice.
const ZONE = "porchlight.zone";
function isLocal() {
  try {
    return localStorage.getItem(ZONE) === "local";
  } catch {
    return false;
  }
}

// Formats a time as the pages do. Without a zone, it uses that of the browser.
function formatTime(at, hasClock, timeZone) {
  const part = (options) => new Intl.DateTimeFormat("en-GB", { ...options, timeZone }).format(at);
  const day = part({ day: "2-digit" }) + " " + part({ month: "short" }).slice(0, 3);
  return day + " " + (hasClock ? part({ hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }) : part({ year: "numeric" }));
}

export function showTimes(root) {
  const local = isLocal();
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (!local && !time.dataset.utc) continue;
    time.dataset.utc ??= time.textContent;
    time.textContent = local ? formatTime(new Date(time.dateTime), time.dataset.utc.includes(":")) : time.dataset.utc;
  }
  for (const name of root.querySelectorAll("[data-zone]")) name.textContent = local ? "local time" : "UTC";
}

export function offerZoneChoice() {
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
    showTimes(document);
  });
}

// Shows in an element that the page has not been updated since a time.
function showLoss(freshness, since) {
  const [time, zone] = [document.createElement("time"), document.createElement("span")];
  time.dateTime = time.title = since.toISOString();
  time.textContent = formatTime(since, true, "UTC");
  zone.dataset.zone = "";
  freshness.replaceChildren("not updating since ", time, " ", zone, "; reconnecting");
  showTimes(freshness);
}

const RETRY_MS = 5000;

// Follows a stream: calls the listener with the name of each message, and opens the stream again after a loss. While the
// connection is lost, `freshness` shows the time of the loss; a listener replaces that text. `beforeRetry` runs before each
// retry after a refusal. Returns a function that ends the stream.
export function followStream(address, freshness, listeners, beforeRetry = () => {}) {
  let source, timer, lostAt;
  const receive = (event) => {
    // The browser's own event "open" has no message. A server that shuts down opens a stream and sends nothing.
    if (!(event instanceof MessageEvent)) return;
    lostAt = undefined;
    listeners[event.type](event);
  };
  const open = () => {
    source = new EventSource(address);
    for (const type of Object.keys(listeners)) source.addEventListener(type, receive);
    source.onerror = () => {
      if (!lostAt) showLoss(freshness, lostAt = new Date());
      // A browser gives up after an answer other than 200, such as 429 or one of a proxy while the server restarts.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(() => { beforeRetry(); open(); }, RETRY_MS);
    };
  };
  open();
  return () => { clearTimeout(timer); source.close(); };
}
