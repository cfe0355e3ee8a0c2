// Keeps a page true. The server's event stream only says that something changed; the
// page then fetches itself and swaps what differs. So what a reader sees is always what
// a reload would show, and a lost connection can lose no change.
import { morph } from "./morph.js";
import { setClock, tick } from "./clock.js";

const settleDelay = 120; // one refresh for a burst of events
const leastBetween = 500;
const pollEvery = 5000;
const retryLeast = 1000;
const retryMost = 15000;

let stream = null;
let address = "";
let retryAfter = retryLeast;
let timer = 0;
let lastRefresh = 0;
let running = null;
let again = false;

function say(text, lost) {
  const state = document.getElementById("link-state");
  if (!state) return;
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("lost", Boolean(lost));
}

async function fetchPage() {
  const answer = await fetch(location.pathname + location.search, {
    headers: { Accept: "text/html" },
    credentials: "same-origin",
    cache: "no-store",
  });
  if (answer.redirected && new URL(answer.url).pathname !== location.pathname) {
    location.assign(answer.url); // signed out, or moved
    return;
  }
  if (!answer.ok && answer.status !== 404) throw new Error(`status ${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const main = fresh.getElementById("main");
  if (!main) return;
  setClock(fresh);
  document.title = fresh.title;
  for (const id of ["main", "tab-icon"]) {
    const now = document.getElementById(id);
    const next = fresh.getElementById(id);
    if (now && next) morph(now, next);
  }
  document.body.dataset.live = fresh.body.dataset.live || "";
  tick();
  document.dispatchEvent(new CustomEvent("refreshed"));
}

// refresh makes the page true now. Calls while one is under way become one more.
export async function refresh() {
  if (running) {
    again = true;
    return running;
  }
  running = (async () => {
    try {
      do {
        again = false;
        lastRefresh = Date.now();
        await fetchPage();
      } while (again);
      follow();
      if (!stream) say("");
      else if (stream.readyState === EventSource.OPEN) say("live");
    } catch {
      say("connection lost, trying again", true);
      schedule(retryLeast * 2);
    } finally {
      running = null;
    }
  })();
  return running;
}

function schedule(delay) {
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(delay, lastRefresh + leastBetween - Date.now()));
}

function close() {
  if (stream) stream.close();
  stream = null;
  address = "";
}

// follow opens the stream that the page names now, and closes one that it no longer does.
function follow() {
  const wanted = document.hidden ? "" : document.body.dataset.live || "";
  if (wanted === address) return;
  close();
  if (!wanted) {
    say("");
    return;
  }
  address = wanted;
  stream = new EventSource(wanted);
  stream.addEventListener("open", () => {
    const healed = retryAfter !== retryLeast || document.querySelector(".link-state.lost");
    retryAfter = retryLeast;
    say("live");
    if (healed) schedule(0);
  });
  const changed = () => schedule(settleDelay);
  stream.addEventListener("message", changed);
  // "end" says that nothing more will come: the refresh finds a page that names no stream,
  // or, after a new round, names it again.
  for (const name of ["end", "refused"]) {
    stream.addEventListener(name, () => {
      close();
      changed();
    });
  }
  stream.addEventListener("error", () => {
    say("connection lost, trying again", true);
    if (stream && stream.readyState === EventSource.CLOSED) {
      // The browser gave up (the server answered with an error): try by ourselves, ever slower.
      close();
      retryAfter = Math.min(retryMost, retryAfter * 2);
      schedule(retryAfter);
    }
  });
}

// A hidden tab holds no connection: browsers allow few to one server.
function onVisibility() {
  if (document.hidden) {
    close();
    return;
  }
  refresh();
}

export function startLive() {
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // forms of an old page carry old keys
  });
  if ("poll" in document.body.dataset) {
    setInterval(() => {
      if (!document.hidden) refresh();
    }, pollEvery);
  }
  follow();
}
