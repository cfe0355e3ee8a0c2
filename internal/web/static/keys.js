// Keys for people who don't want to reach for the mouse. They are off while somebody
// types, and can be switched off altogether in the list of keys.

const bound = new Map();
let last = "";

// bind gives a key a meaning on this page.
export function bind(key, act) {
  bound.set(key, act);
}

export function remembered(name, otherwise) {
  try {
    return localStorage.getItem(name) ?? otherwise;
  } catch {
    return otherwise; // storage is refused to this page
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The choice holds until the page is left.
  }
}

function typing(target) {
  return target.closest && target.closest("input, textarea, select, [contenteditable]");
}

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

function up() {
  const to = document.querySelector("[data-up]");
  location.assign(to ? to.href : "/");
}

function showKeys() {
  const dialog = document.getElementById("keys");
  if (dialog && !dialog.open) dialog.showModal();
}

function search() {
  const field = document.querySelector("#log-q, #q");
  if (field) {
    field.focus();
    field.select();
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape") {
    for (const open of document.querySelectorAll("details.action[open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
    if (typing(event.target)) event.target.blur();
    return;
  }
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  if (remembered("keys", "on") === "off") return;
  const pair = last + event.key;
  last = event.key === "g" ? "g" : "";
  const act = bound.get(pair) || bound.get(event.key);
  if (act) {
    event.preventDefault();
    act(event);
  }
}

export function startKeys() {
  const button = document.getElementById("keys-button");
  const toggle = document.getElementById("keys-on");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", showKeys);
  }
  if (toggle) {
    toggle.checked = remembered("keys", "on") === "on";
    toggle.addEventListener("change", () => remember("keys", toggle.checked ? "on" : "off"));
  }
  for (const [key, act] of [
    ["?", showKeys],
    ["/", search],
    ["j", () => move(1)],
    ["k", () => move(-1)],
    ["u", up],
    ["gr", () => location.assign("/")],
  ]) {
    if (!bound.has(key)) bind(key, act);
  }
  document.addEventListener("keydown", onKey);
}
