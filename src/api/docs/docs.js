// Makes the calls that the forms describe. Only the input field holds the key.
"use strict";

for (const form of document.querySelectorAll("form[data-path]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}

async function send(form) {
  const { method, path, media } = form.dataset;
  const headers = {};
  const query = new URLSearchParams();
  let address = path;
  for (const input of form.querySelectorAll("input[data-in]")) {
    if (input.value === "") continue;
    if (input.dataset.in === "path") address = address.replace(`{${input.name}}`, encodeURIComponent(input.value));
    if (input.dataset.in === "query") query.set(input.name, input.value);
    if (input.dataset.in === "header") headers[input.name] = input.value;
  }
  const key = document.getElementById("key").value.trim();
  if (key !== "") headers["Service-Key"] = key;
  const body = form.elements.body?.value;
  if (body) headers["Content-Type"] = media;
  if (query.size > 0) address += `?${query}`;
  const button = form.querySelector("button");
  button.disabled = true;
  const started = performance.now();
  try {
    const answer = await fetch(address, {
      method: method.toUpperCase(), headers, body: body || undefined, credentials: "omit", cache: "no-store",
    });
    const type = answer.headers.get("Content-Type") ?? "";
    const head = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    const took = Math.round(performance.now() - started);
    show(form, `${answer.status} ${answer.statusText}, ${took} ms`, `${head}\n\n${await read(answer, type)}`);
  } catch (error) {
    show(form, "The call could not be made", String(error));
  } finally {
    button.disabled = false;
  }
}

// Reads an answer for display: the first seconds of a stream, the length of binary data, and all other answers as text.
async function read(answer, type) {
  if (type.startsWith("text/event-stream")) return readSome(answer, 3000);
  if (type.startsWith("image/png") || type.includes("protobuf")) return `(${(await answer.arrayBuffer()).byteLength} bytes)`;
  const text = await answer.text();
  if (!/\bjson\b/.test(type) || type.includes("ndjson")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function readSome(answer, forMs) {
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  const timer = setTimeout(() => reader.cancel(), forMs);
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value, { stream: true });
  clearTimeout(timer);
  return text;
}

function show(form, line, text) {
  const result = form.querySelector(".result");
  result.hidden = false;
  result.querySelector("p").textContent = line;
  result.querySelector("code").textContent = text;
}

// Filters the list of operations.
const search = document.getElementById("search");
search?.addEventListener("input", () => {
  const word = search.value.trim().toLowerCase();
  for (const item of document.querySelectorAll("nav li")) item.hidden = !item.textContent.toLowerCase().includes(word);
});
