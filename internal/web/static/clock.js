// Keeps relative times and running durations true while a page is open. The words are
// those of the server (moment.go), so nothing jumps when a page is refreshed.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const pad = (n) => String(n).padStart(2, "0");

export function span(ms) {
  if (ms < 0) return "0s";
  if (ms < 10 * second) return `${Math.floor(ms / second)}.${Math.floor((ms % second) / 100)}s`;
  if (ms < minute) return `${Math.floor(ms / second)}s`;
  if (ms < hour) return `${Math.floor(ms / minute)}m ${pad(Math.floor((ms % minute) / second))}s`;
  if (ms < day) return `${Math.floor(ms / hour)}h ${pad(Math.floor((ms % hour) / minute))}m`;
  return `${Math.floor(ms / day)}d ${Math.floor((ms % day) / hour)}h`;
}

function coarse(ms) {
  if (ms < minute) return `${Math.floor(ms / second)}s`;
  if (ms < hour) return `${Math.floor(ms / minute)}m`;
  if (ms < 48 * hour) return `${Math.floor(ms / hour)}h`;
  return `${Math.floor(ms / day)}d`;
}

function ago(ms) {
  if (ms < 0) return `in ${coarse(-ms)}`;
  if (ms < 5 * second) return "just now";
  return `${coarse(ms)} ago`;
}

// The reader's clock may be wrong; the server's counts. The page says when it was made.
let skew = 0;
export function setClock(doc) {
  const made = doc.querySelector('meta[name="now"]');
  if (made) skew = Date.now() - Date.parse(made.content);
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function tick() {
  const now = Date.now() - skew;
  for (const node of document.querySelectorAll("[data-since]")) put(node, span(now - Date.parse(node.dataset.since)));
  for (const node of document.querySelectorAll("[data-ago]")) {
    const past = now - Date.parse(node.getAttribute("datetime"));
    if (past < 30 * day) put(node, ago(past));
  }
}

export function startClock() {
  setClock(document);
  tick();
  setInterval(() => {
    if (!document.hidden) tick();
  }, second);
}
