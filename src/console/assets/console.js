// What moves in the console. Every page works without it.

const busy = new WeakSet();

// Buttons that copy the text beside them. They are hidden until somebody can bring them to life.
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

// A part that looks again until the page that comes no longer asks for it.
function refreshing(root) {
  const part = root.querySelector("[data-refresh]");
  if (part) setTimeout(() => refresh(), Number(part.dataset.refresh));
}

async function refresh() {
  if (document.hidden) {
    document.addEventListener("visibilitychange", refresh, { once: true });
    return;
  }
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected) return location.assign(answer.url);
    if (answer.ok) swap(await answer.text());
    else setTimeout(refresh, 3000);
  } catch {
    setTimeout(refresh, 3000);
  }
}

// Puts the main part of a page in the place of this one's, and the focus back to where it was.
function swap(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const [now, next] = [document.querySelector("main"), page.querySelector("main")];
  if (!next) return;
  const focused = document.activeElement?.id;
  now.replaceChildren(...next.childNodes);
  document.title = page.title;
  if (focused) document.getElementById(focused)?.focus();
  alive(now);
}

// A form is sent once.
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

function alive(root) {
  copying(root);
  refreshing(root);
}

sending();
alive(document);
