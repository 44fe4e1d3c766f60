// Maps of the console: one canvas over squares that this service paints from its own map file. No request leaves the
// service. Without this script the pages show their plain drawings and lists.

import { followStream } from "./shared.js";

const SIDE = 256;
const SQUARES_KEPT = 160;
const ZOOM_MAX = 19;

const dark = matchMedia("(prefers-color-scheme: dark)");
// A colour of the style sheet is a pair for the light and the dark theme. A canvas needs the one of the current theme,
// and this element resolves it.
const probe = document.createElement("i");
probe.hidden = true;
document.body.append(probe);
const colours = new Map();
function colour(name) {
  if (!colours.has(name)) {
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

// Converts degrees to Web Mercator, 0 to 1 from the north-western corner.
const project = (lat, lng) => {
  const sine = Math.sin(Math.max(-85, Math.min(85, lat)) * Math.PI / 180);
  return [lng / 360 + 0.5, 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI)];
};
const unproject = (x, y) => [Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180 / Math.PI, (x - 0.5) * 360];
const EQUATOR_M = 40075016.69;

class StreetMap {
  constructor(root, paint) {
    this.root = root;
    this.paint = paint;
    this.canvas = root.querySelector("canvas");
    this.pen = this.canvas.getContext("2d");
    this.place = root.querySelector(".map-place");
    this.squares = new Map();
    this.centre = [0.5, 0.5];
    this.zoom = 2;
    this.pointers = new Map();
    this.isDrawScheduled = false;
    root.hidden = false;
    document.getElementById("map-keys")?.removeAttribute("hidden");
    root.parentElement.querySelectorAll(".map-legend").forEach((one) => { one.hidden = false; });
    this.measure();
    new ResizeObserver(() => { this.measure(); this.draw(); }).observe(root);
    dark.addEventListener("change", () => { colours.clear(); this.squares.clear(); this.draw(); });
    this.listen();
  }

  measure() {
    const box = this.root.getBoundingClientRect();
    this.ratio = Math.min(2, devicePixelRatio || 1);
    [this.width, this.height] = [Math.max(1, box.width), Math.max(1, box.height)];
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
  }

  // The width of the world in pixels at this zoom.
  get world() { return SIDE * 2 ** this.zoom; }

  // Converts degrees to pixels on the canvas.
  toCanvas(lat, lng) {
    const [x, y] = project(lat, lng);
    return [(x - this.centre[0]) * this.world + this.width / 2, (y - this.centre[1]) * this.world + this.height / 2];
  }

  // Converts pixels on the canvas to degrees.
  toDegrees(x, y) {
    return unproject((x - this.width / 2) / this.world + this.centre[0], (y - this.height / 2) / this.world + this.centre[1]);
  }

  // Converts a length in metres to pixels at the middle of the view.
  pixels(lengthM) {
    const [lat] = unproject(...this.centre);
    return lengthM * this.world / (EQUATOR_M * Math.cos(lat * Math.PI / 180));
  }

  // Moves and zooms the view so that it contains these points, [lat, lng].
  fit(points, closest = 17) {
    if (!points.length) return;
    let [left, top, right, bottom] = [1, 1, 0, 0];
    for (const [lat, lng] of points) {
      const [x, y] = project(lat, lng);
      [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
    }
    this.centre = [(left + right) / 2, (top + bottom) / 2];
    const room = (pixels, span) => Math.log2(Math.max(40, pixels - 64) / SIDE / Math.max(span, 1e-9));
    this.zoom = Math.max(0, Math.min(closest, room(this.width, right - left), room(this.height, bottom - top)));
    this.draw();
  }

  move(dx, dy) {
    this.centre = [this.centre[0] - dx / this.world, Math.max(0, Math.min(1, this.centre[1] - dy / this.world))];
    this.draw();
  }

  // Zooms around a point, which stays where it is on the canvas.
  zoomBy(step, x = this.width / 2, y = this.height / 2) {
    const before = [(x - this.width / 2) / this.world, (y - this.height / 2) / this.world];
    this.zoom = Math.max(1, Math.min(ZOOM_MAX, this.zoom + step));
    const after = [(x - this.width / 2) / this.world, (y - this.height / 2) / this.world];
    this.centre = [this.centre[0] + before[0] - after[0], this.centre[1] + before[1] - after[1]];
    this.draw();
  }

  listen() {
    const { canvas, pointers } = this;
    const position = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, position(event));
      canvas.setPointerCapture(event.pointerId);
      this.moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = position(event);
      const [lat, lng] = this.toDegrees(...now);
      this.place.textContent = `${lat.toFixed(5)}, ${lng.toFixed(5)}`;
      const before = pointers.get(event.pointerId);
      if (!before) return this.onHover?.(now);
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
      if (others.length) {
        const distance = (one) => Math.hypot(one[0] - others[0][0], one[1] - others[0][1]);
        const middle = [(now[0] + others[0][0]) / 2, (now[1] + others[0][1]) / 2];
        this.zoomBy(Math.log2(Math.max(10, distance(now)) / Math.max(10, distance(before))), ...middle);
      } else {
        this.moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
        this.move(now[0] - before[0], now[1] - before[1]);
      }
      pointers.set(event.pointerId, now);
    });
    for (const type of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(type, (event) => {
        if (pointers.delete(event.pointerId) && type === "pointerup" && this.moved < 4) this.onChoose?.(position(event));
      });
    }
    // The wheel scrolls the page until the map has the focus.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      this.zoomBy(-Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 200), ...position(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoomBy(1, ...position(event)));
    const keys = {
      ArrowLeft: () => this.move(60, 0), ArrowRight: () => this.move(-60, 0), ArrowUp: () => this.move(0, 60),
      ArrowDown: () => this.move(0, -60), "+": () => this.zoomBy(1), "=": () => this.zoomBy(1), "-": () => this.zoomBy(-1),
      0: () => this.fitAll?.(),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    const buttons = { in: () => this.zoomBy(1), out: () => this.zoomBy(-1), fit: () => this.fitAll?.(), address: () => this.fitAddress?.() };
    for (const button of this.root.querySelectorAll("[data-map]")) button.addEventListener("click", buttons[button.dataset.map]);
  }

  // Draws in the next frame; several requests cause one drawing.
  draw() {
    if (this.isDrawScheduled) return;
    this.isDrawScheduled = true;
    requestAnimationFrame(() => { this.isDrawScheduled = false; this.drawNow(); });
  }

  drawNow() {
    const { pen } = this;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.fillStyle = colour("sunk");
    pen.fillRect(0, 0, this.width, this.height);
    if (this.root.dataset.squares) this.drawSquares();
    this.paint(pen, this);
    this.drawScale();
  }

  drawSquares() {
    const level = Math.max(0, Math.min(ZOOM_MAX, Math.round(this.zoom)));
    const count = 2 ** level;
    const size = this.world / count;
    const left = this.centre[0] * count - this.width / 2 / size;
    const top = this.centre[1] * count - this.height / 2 / size;
    for (let y = Math.max(0, Math.floor(top)); y < Math.min(count, top + this.height / size); y++) {
      for (let x = Math.floor(left); x < left + this.width / size; x++) {
        const column = ((x % count) + count) % count;
        this.drawSquare(level, column, y, (x - left) * size, (y - top) * size, size);
      }
    }
  }

  drawSquare(level, x, y, left, top, size) {
    const image = this.square(level, x, y);
    if (image?.ready) return this.pen.drawImage(image, left, top, size + 0.5, size + 0.5);
    // Until the square arrives, the map shows a part of a coarser one.
    for (let up = 1; up <= 4 && level >= up; up++) {
      const coarse = this.squares.get(`${level - up}/${x >> up}/${y >> up}`);
      if (!coarse?.ready) continue;
      const parts = 2 ** up;
      const part = coarse.naturalWidth / parts;
      this.pen.drawImage(coarse, (x % parts) * part, (y % parts) * part, part, part, left, top, size + 0.5, size + 0.5);
      return;
    }
  }

  square(level, x, y) {
    const key = `${level}/${x}/${y}`;
    let image = this.squares.get(key);
    if (image) {
      this.squares.delete(key);
    } else {
      image = new Image();
      image.addEventListener("load", () => { image.ready = true; this.draw(); });
      // The map requests a failed square again after two seconds, if the view needs it.
      image.addEventListener("error", () => setTimeout(() => { this.squares.delete(key); this.draw(); }, 2000));
      image.src = `${this.root.dataset.squares}/${dark.matches ? "dark" : "light"}/${key}.png`;
    }
    this.squares.set(key, image);
    if (this.squares.size > SQUARES_KEPT) this.squares.delete(this.squares.keys().next().value);
    return image;
  }

  // Draws the scale bar, whose length is round and at most a quarter of the width.
  drawScale() {
    const { pen } = this;
    const pixelsPerM = this.pixels(1);
    let length = 1;
    for (const step of [2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6]) if (step * pixelsPerM <= this.width / 4) length = step;
    const [x, y, width] = [14, this.height - 14, length * pixelsPerM];
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, y - 6); pen.lineTo(x, y); pen.lineTo(x + width, y); pen.lineTo(x + width, y - 6);
    pen.stroke();
    label(pen, length < 1000 ? `${length} m` : `${length / 1000} km`, x + 4, y - 5, "ink");
  }
}

function label(pen, text, x, y, ink) {
  pen.font = "600 12px system-ui, sans-serif";
  pen.lineJoin = "round";
  pen.lineWidth = 3;
  pen.strokeStyle = colour("card");
  pen.strokeText(text, x, y);
  pen.fillStyle = colour(ink);
  pen.fillText(text, x, y);
}

function dot(pen, [x, y], radius, fill, edge = "card") {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = colour(fill);
  pen.fill();
  pen.lineWidth = 1;
  pen.strokeStyle = colour(edge);
  pen.stroke();
}

function polygon(pen, points, fill) {
  pen.beginPath();
  points.forEach(([x, y], index) => { index ? pen.lineTo(x, y) : pen.moveTo(x, y); });
  pen.closePath();
  pen.fillStyle = colour(fill);
  pen.fill();
  pen.lineWidth = 1.5;
  pen.strokeStyle = colour("card");
  pen.stroke();
}

// --- The route of one session --------------------------------------------------------------------------------------

const GAP_SEC = 15;

// Draws the positions, the movements and the known points of one session.
function sessionMap(root) {
  const part = document.getElementById("part-track");
  let data = {};
  let highlighted = null;
  const read = () => { data = JSON.parse(part.querySelector("[data-track-map]").dataset.trackMap); };
  read();
  const isInaccurate = (position) => position[3] !== null && position[3] > 150;

  const line = (pen, map, from, to, ink, width) => {
    let last = null;
    pen.beginPath();
    for (const position of data.positions) {
      if (position[0] < from || position[0] > to || isInaccurate(position)) continue;
      const at = map.toCanvas(position[1], position[2]);
      if (last && position[0] - last[0] <= GAP_SEC) pen.lineTo(...at); else pen.moveTo(...at);
      last = position;
    }
    pen.lineWidth = width;
    pen.lineJoin = pen.lineCap = "round";
    pen.strokeStyle = colour(ink);
    pen.stroke();
    pen.lineCap = "butt";
  };

  const paint = (pen, map) => {
    const address = map.toCanvas(...data.address);
    pen.beginPath();
    pen.arc(...address, Math.max(5, map.pixels(data.accuracy)), 0, 2 * Math.PI);
    pen.setLineDash([4, 3]);
    pen.lineWidth = 1.5;
    pen.strokeStyle = colour("bad");
    pen.stroke();
    pen.setLineDash([]);
    line(pen, map, 0, Infinity, "card", 5);
    for (const [from, to, kind] of data.moves) line(pen, map, from, to, kind === "unknown" ? "note-track" : kind, 3);
    if (highlighted) {
      line(pen, map, highlighted[0] - 2, highlighted[1] + 2, "ink", 11);
      line(pen, map, highlighted[0] - 2, highlighted[1] + 2, "accent", 7);
    }
    for (const position of data.positions) {
      const [, lat, lng, accuracy] = position;
      const at = map.toCanvas(lat, lng);
      if (at[0] < -9 || at[1] < -9 || at[0] > map.width + 9 || at[1] > map.height + 9) continue;
      // A less accurate position is also smaller, so that the colour alone carries no meaning.
      const [good, fair] = data.accurate;
      const ink = accuracy === null || accuracy > fair ? "bad" : accuracy > good ? "warn" : "good";
      dot(pen, at, ink === "good" ? 3.5 : ink === "warn" ? 2.8 : 2.1, ink);
    }
    for (const gate of data.gates) {
      const [x, y] = map.toCanvas(...gate);
      polygon(pen, [[x - 5, y - 5], [x + 5, y - 5], [x + 5, y + 5], [x - 5, y + 5]], "ink");
    }
    for (const [name, lat, lng] of data.learned) {
      const [x, y] = map.toCanvas(lat, lng);
      polygon(pen, [[x, y - 7], [x + 7, y], [x, y + 7], [x - 7, y]], "elevator");
      if (map.zoom > 15.5) label(pen, name, x + 10, y + 4, "ink");
    }
    if (data.entrance) {
      const [x, y] = map.toCanvas(...data.entrance);
      polygon(pen, [[x, y - 7], [x + 7, y + 5], [x - 7, y + 5]], "ink");
    }
    if (data.drop) {
      pen.beginPath();
      pen.arc(...map.toCanvas(...data.drop), 9, 0, 2 * Math.PI);
      pen.lineWidth = 2.5;
      pen.strokeStyle = colour("ink");
      pen.stroke();
    }
    const [x, y] = address;
    polygon(pen, [[x, y], [x - 7, y - 12], [x - 5, y - 18], [x, y - 20], [x + 5, y - 18], [x + 7, y - 12]], "bad");
    dot(pen, [x, y - 13], 2.5, "card");
  };

  const map = new StreetMap(root, paint);
  const pointsToFit = () => {
    const points = data.positions.filter((one) => !isInaccurate(one)).map(([, lat, lng]) => [lat, lng]);
    const [lat, lng] = data.address;
    // A forged position may lie on another continent.
    const nearPoints = points.filter((one) => Math.abs(one[0] - lat) < 0.3 && Math.abs(one[1] - lng) < 0.5);
    return [data.address, ...nearPoints];
  };
  map.fitAll = () => map.fit(pointsToFit());
  map.fitAddress = () => { map.fit([data.address], 18); };
  map.fitAll();
  new MutationObserver(() => { read(); map.draw(); }).observe(part, { childList: true });

  // The map highlights the route during the event under the pointer or with the focus.
  const highlight = (event) => {
    const next = event.target.closest?.("[data-span]")?.dataset.span.split(",").map(Number) ?? null;
    if (String(next) === String(highlighted)) return;
    highlighted = next;
    root.toggleAttribute("data-highlight", Boolean(highlighted));
    map.draw();
  };
  for (const type of ["pointerover", "focusin", "focusout"]) document.addEventListener(type, highlight);
}

// --- The live board ------------------------------------------------------------------------------------------------

const LATE_MS = 60000;

// Draws the sessions in progress, and lists the newest of them.
function boardMap(root) {
  const sessions = new Map();
  const table = document.getElementById("board-rows");
  const rowsMax = Number(table.dataset.rows);
  const freshness = document.getElementById("freshness");
  let now = Date.now();
  let highlighted = null;
  let wasFitted = false;
  // The newest position of a session, or its address.
  const positionOf = (one) => one.at ?? one.to;

  const paint = (pen, map) => {
    const groups = { good: [], warn: [], "note-track": [] };
    for (const one of sessions.values()) {
      const at = map.toCanvas(...positionOf(one));
      if (at[0] < -9 || at[1] < -9 || at[0] > map.width + 9 || at[1] > map.height + 9) continue;
      groups[!one.at ? "note-track" : now - one.heard > LATE_MS ? "warn" : "good"].push(at);
    }
    pen.lineWidth = 1.5;
    pen.strokeStyle = colour("card");
    for (const [ink, points] of Object.entries(groups)) {
      pen.fillStyle = colour(ink);
      pen.beginPath();
      for (const [x, y] of points) {
        if (ink === "good") {
          pen.moveTo(x + 5, y);
          pen.arc(x, y, 5, 0, 2 * Math.PI);
        } else if (ink === "warn") {
          pen.rect(x - 4.5, y - 4.5, 9, 9);
        } else {
          pen.moveTo(x, y - 5); pen.lineTo(x + 5, y + 4); pen.lineTo(x - 5, y + 4); pen.closePath();
        }
      }
      pen.fill();
      pen.stroke();
    }
    const one = sessions.get(highlighted);
    if (one) {
      const [x, y] = map.toCanvas(...positionOf(one));
      pen.beginPath();
      pen.arc(x, y, 9, 0, 2 * Math.PI);
      pen.lineWidth = 2.5;
      pen.strokeStyle = colour("accent");
      pen.stroke();
      const text = `${one.delivery} · ${one.event ?? "recording"} · ${ago(one.heard)}`;
      const left = x > map.width / 2;
      pen.textAlign = left ? "right" : "left";
      label(pen, text, left ? x - 13 : x + 13, y + 4, "ink");
      pen.textAlign = "left";
    }
  };

  const map = new StreetMap(root, paint);
  map.fitAll = () => map.fit([...sessions.values()].map(positionOf));
  // Returns the id of the session within 14 pixels of a point, or null.
  const nearest = ([x, y]) => {
    let [best, least] = [null, 14];
    for (const one of sessions.values()) {
      const at = map.toCanvas(...positionOf(one));
      const distance = Math.hypot(at[0] - x, at[1] - y);
      if (distance < least) [best, least] = [one.id, distance];
    }
    return best;
  };
  map.onHover = (point) => {
    const next = nearest(point);
    if (next === highlighted) return;
    highlighted = next;
    map.canvas.classList.toggle("on-session", Boolean(next));
    map.draw();
  };
  map.onChoose = (point) => {
    const id = nearest(point);
    if (id) location.assign(`/console/sessions/${id}`);
  };

  function ago(heard) {
    if (!heard) return "never";
    const seconds = Math.max(0, Math.round((now - heard) / 1000));
    return seconds < 60 ? `${seconds} s ago` : seconds < 3600 ? `${Math.floor(seconds / 60)} min ago` : `${Math.floor(seconds / 3600)} h ago`;
  }

  // Rewrites the rows of the newest sessions; the others are on the map and on the page of sessions.
  const updateRows = () => {
    const newest = [...sessions.values()].sort((a, b) => (b.heard ?? 0) - (a.heard ?? 0) || (a.id < b.id ? -1 : 1)).slice(0, rowsMax);
    const body = table.tBodies[0];
    while (body.rows.length > newest.length) body.deleteRow(-1);
    newest.forEach((one, index) => {
      let row = body.rows[index];
      if (!row) {
        row = body.insertRow();
        const link = document.createElement("a");
        link.className = "main";
        row.insertCell().append(link);
        row.insertCell();
        row.insertCell().className = "opt";
        row.insertCell().className = "nobr";
      }
      const [delivery, event, rider, heard] = row.cells;
      const link = delivery.firstChild;
      const set = (cell, text) => { if (cell.textContent !== text) cell.textContent = text; };
      if (row.dataset.id !== one.id) {
        row.dataset.id = one.id;
        link.href = `/console/sessions/${one.id}`;
      }
      set(link, one.delivery);
      set(event, one.event ?? "none yet");
      set(rider, one.rider);
      set(heard, ago(one.heard));
    });
    document.getElementById("board-count").textContent = `: ${sessions.size}`;
    const rest = document.getElementById("board-more");
    rest.hidden = sessions.size > 0 && sessions.size <= rowsMax;
    rest.textContent = sessions.size > 0 ? `The table shows the ${rowsMax} with the newest data.` : "No sessions in progress.";
  };
  const highlight = (event) => {
    const id = event.target.closest?.("tr[data-id]")?.dataset.id;
    if (!id || id === highlighted) return;
    highlighted = id;
    map.draw();
  };
  for (const type of ["pointerover", "focusin"]) table.addEventListener(type, highlight);

  const update = (event) => {
    const start = performance.now();
    const changes = JSON.parse(event.data);
    now = changes.now;
    // Sessions may have ended between two streams.
    if (changes.all) sessions.clear();
    for (const one of changes.put) sessions.set(one.id, one);
    for (const id of changes.gone) sessions.delete(id);
    const text = changes.more ? `live: the newest ${sessions.size} sessions` : "live";
    if (freshness.textContent !== text) freshness.textContent = text;
    if (!wasFitted && sessions.size) {
      wasFitted = true;
      map.fitAll();
    }
    updateRows();
    map.isDrawScheduled = true;
    map.drawNow();
    map.isDrawScheduled = false;
    performance.measure("board-update", { start, detail: changes.put.length });
  };
  followStream(root.dataset.board, freshness, { board: update });
}

// Starts the maps that are not running yet. The script replaces the whole content of a page whose session was just scored,
// including the element of the map.
function start() {
  for (const root of document.querySelectorAll(".street-map[hidden]")) (root.dataset.board ? boardMap : sessionMap)(root);
}
start();
new MutationObserver(start).observe(document.querySelector("main"), { childList: true });
