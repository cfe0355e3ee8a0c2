// The log of one attempt: scrolls through a million lines, follows the end, folds groups,
// searches, and links to lines. Without this module the page shows the same lines by parts.
import { bind, remember, remembered } from "./keys.js";
import { refresh } from "./live.js";
import { Lines } from "./lines.js";
import { Scroller } from "./scroller.js";

const element = (id) => document.getElementById(id);
const box = element("log");
const growDelay = 200;

class Log {
  constructor() {
    this.lines = new Lines(box.dataset.base, Number(box.dataset.total));
    this.folds = []; // { from, to }: the lines after "from" up to "to" are hidden; sorted, apart
    this.pick = null; // { from, to }
    this.matches = [];
    this.matchSet = new Set();
    this.match = -1;
    this.more = 0;
    this.follow = false;
    this.stream = null;
    this.growing = false;
    this.scroller = new Scroller(box, (row) => this.draw(this.lineOf(row)));
    this.scroller.onmove = () => this.moved();
    this.lines.onload = () => this.scroller.redraw();
    this.lines.onfail = (problem) => this.say(problem.message);
  }

  say(text) {
    element("log-matches").textContent = text;
  }

  // Rows are lines without the folded ones; lines count from 1, rows from 0.
  hidden() {
    return this.folds.reduce((sum, fold) => sum + fold.to - fold.from, 0);
  }

  lineOf(row) {
    let line = row + 1;
    for (const fold of this.folds) {
      if (line <= fold.from) break;
      line += fold.to - fold.from;
    }
    return line;
  }

  rowOf(line) {
    let row = line - 1;
    for (const fold of this.folds) {
      if (line > fold.to) row -= fold.to - fold.from;
      else if (line > fold.from) return row - (line - fold.from);
    }
    return row;
  }

  draw(number) {
    const line = this.lines.at(number);
    const row = document.createElement("div");
    row.id = `L${number}`;
    row.className = "ln";
    const link = document.createElement("a");
    link.className = "no";
    link.href = `${box.dataset.base}?line=${number}#L${number}`;
    link.dataset.n = number;
    link.tabIndex = -1;
    link.setAttribute("aria-label", `Line ${number}`);
    const at = document.createElement("span");
    at.className = "at";
    const text = document.createElement("span");
    text.className = "tx";
    row.append(link, at, text);
    if (!line) row.classList.add("waiting");
    else this.fill(row, at, text, line);
    if (this.pick && number >= this.pick.from && number <= this.pick.to) row.classList.add("pick");
    if (this.matchSet.has(number)) row.classList.add("hit");
    if (this.matches[this.match] === number) row.classList.add("hit-now");
    return row;
  }

  fill(row, at, text, line) {
    at.dataset.t = line.t || "";
    at.title = line.f || "";
    text.innerHTML = line.h; // made by the server's renderer: spans with fixed classes, the rest escaped
    if (line.k) row.classList.add(`k-${line.k}`);
    const before = this.lines.at(line.n - 1);
    if (before && before.s !== line.s) row.classList.add("newstep");
    if (line.c) {
      const mark = document.createElement("a");
      mark.className = "cutmark";
      mark.href = `${box.dataset.raw}?offset=${line.o || 0}`;
      mark.textContent = line.c;
      text.append(mark);
    }
    if (line.k === "group") {
      const fold = this.folds.find((one) => one.from === line.n);
      row.classList.toggle("folded", Boolean(fold));
      text.setAttribute("role", "button");
      text.setAttribute("aria-expanded", String(!fold));
      if (fold) {
        const count = document.createElement("span");
        count.className = "foldcount";
        count.textContent = `${fold.to - fold.from} lines folded`;
        text.append(count);
      }
    }
  }

  resize() {
    this.scroller.resize(this.lines.total - this.hidden());
    const none = element("log-empty");
    if (none && this.lines.total > 0) none.remove();
  }

  // load asks for what is in sight and around it.
  load() {
    const { start, end } = this.scroller;
    if (end > start) this.lines.want(this.lineOf(start), this.lineOf(end - 1));
  }

  moved() {
    this.load();
    if (this.follow && !this.scroller.atEnd) this.setFollow(false);
    this.markStep();
  }

  markStep() {
    const line = this.lineOf(this.scroller.first().row);
    let current = null;
    for (const link of document.querySelectorAll("#steps a[data-line]")) {
      link.removeAttribute("aria-current");
      if (Number(link.dataset.line) <= line) current = link;
    }
    if (current) current.setAttribute("aria-current", "true");
  }

  go(line) {
    line = Math.max(1, Math.min(this.lines.total, line));
    this.setFollow(false);
    this.folds = this.folds.filter((fold) => line <= fold.from || line > fold.to);
    this.resize();
    this.scroller.go(this.rowOf(line));
    this.load();
    this.markStep();
  }

  setFollow(on) {
    this.follow = on;
    element("log-follow").setAttribute("aria-pressed", String(on));
    if (on) {
      this.scroller.goEnd();
      this.load();
      this.markStep();
    }
  }

  // Selection: a line, or a range, kept in the address.
  select(from, to) {
    this.pick = { from: Math.min(from, to), to: Math.max(from, to) };
    const hash = this.pick.from === this.pick.to ? `#L${from}` : `#L${this.pick.from}-L${this.pick.to}`;
    history.replaceState(null, "", `${box.dataset.base}?line=${this.pick.from}${hash}`);
    this.scroller.redraw();
  }

  fromHash() {
    const found = /^#L(\d+)(?:-L(\d+))?$/.exec(location.hash);
    if (!found) return false;
    const from = Number(found[1]);
    const to = Number(found[2] || found[1]);
    this.pick = { from: Math.min(from, to), to: Math.max(from, to) };
    this.go(this.pick.from);
    return true;
  }

  step(delta, extend) {
    const first = this.lineOf(this.scroller.first().row) + Math.floor(this.scroller.seen / 3);
    const line = this.pick ? Math.min(this.lines.total, Math.max(1, this.pick.to + delta)) : first;
    this.setFollow(false);
    const from = extend && this.pick ? this.pick.from : line;
    this.pick = { from: Math.min(from, line), to: Math.max(from, line) };
    const row = this.rowOf(line);
    const seen = this.scroller.first().row;
    if (row <= seen || row >= seen + this.scroller.seen - 1) this.scroller.go(row);
    else this.scroller.redraw();
    this.load();
  }

  async toggleGroup(line) {
    const open = this.folds.findIndex((fold) => fold.from === line);
    if (open >= 0) {
      this.folds.splice(open, 1);
    } else {
      const group = await this.lines.ask(`group.json?line=${line}`);
      if (group.to <= line) return;
      this.folds = this.folds.filter((fold) => fold.from > group.to || fold.to < line);
      this.folds.push({ from: line, to: group.to });
      this.folds.sort((a, b) => a.from - b.from);
    }
    const at = this.scroller.first();
    const keep = this.rowOf(line);
    const offset = at.offset + (keep - at.row) * 20;
    this.resize();
    this.scroller.show(keep, Math.max(0, offset));
    this.load();
  }

  async search(text) {
    this.matches = [];
    this.matchSet.clear();
    this.match = -1;
    this.more = 0;
    if (text) {
      await this.searchMore(text, 0);
      const here = this.lineOf(this.scroller.first().row);
      const next = this.matches.findIndex((line) => line >= here);
      if (this.matches.length > 0) return this.showMatch(Math.max(0, next));
    }
    this.scroller.redraw();
    this.count(text);
  }

  async searchMore(text, from) {
    const found = await this.lines.ask(`search.json?q=${encodeURIComponent(text)}&from=${from}`);
    for (const line of found.lines) {
      this.matches.push(line);
      this.matchSet.add(line);
    }
    this.more = found.next || 0;
    this.text = text;
  }

  async showMatch(index) {
    if (index >= this.matches.length && this.more) await this.searchMore(this.text, this.more);
    const n = this.matches.length;
    if (n === 0) return;
    this.match = (index + n) % n;
    this.go(this.matches[this.match]);
    this.count(this.text);
  }

  count(text) {
    const n = this.matches.length;
    for (const id of ["log-prev", "log-next"]) element(id).hidden = n === 0;
    this.say(!text ? "" : n === 0 ? "no match" : `${this.match + 1} of ${n}${this.more ? "+" : ""}`);
  }

  // Live: the stream says that there is more; the lines come the same way as all others.
  watch() {
    const address = box.dataset.live;
    if (!address || this.stream || document.hidden) return;
    const known = address.replace(/offset=\d+/, `offset=${this.bytes ?? /offset=(\d+)/.exec(address)?.[1] ?? 0}`);
    this.stream = new EventSource(known);
    const more = () => this.growSoon();
    this.stream.addEventListener("message", more);
    for (const name of ["end", "refused"]) {
      this.stream.addEventListener(name, () => {
        this.unwatch();
        more();
      });
    }
    this.stream.addEventListener("error", () => {
      this.growSoon(); // it may have ended because the log is sealed
      if (this.stream && this.stream.readyState === EventSource.CLOSED) {
        this.stream = null;
        setTimeout(() => this.watch(), 2000);
      }
    });
  }

  unwatch() {
    if (this.stream) this.stream.close();
    this.stream = null;
  }

  growSoon() {
    if (this.growing) return;
    this.growing = true;
    setTimeout(async () => {
      this.growing = false;
      try {
        await this.grow();
      } catch {
        // The page's own connection state tells; the next event or reconnection tries again.
      }
    }, growDelay);
  }

  async grow() {
    const answer = await this.lines.grow();
    this.bytes = answer.bytes;
    this.resize();
    if (this.follow) this.setFollow(true);
    else this.scroller.redraw();
    if (answer.sealed) {
      this.unwatch();
      box.dataset.live = "";
    }
    await refresh();
  }
}

function toggle(id, name, apply) {
  const button = element(id);
  const set = (on) => {
    button.setAttribute("aria-pressed", String(on));
    box.classList.toggle(name, on);
    remember(`log-${name}`, on ? "on" : "off");
    apply();
  };
  box.classList.toggle(name, remembered(`log-${name}`, "off") === "on");
  button.setAttribute("aria-pressed", String(box.classList.contains(name)));
  const flip = () => set(!box.classList.contains(name));
  button.addEventListener("click", flip);
  return flip;
}

function wire(log) {
  const again = () => log.scroller.redraw();
  bind("w", toggle("log-wrap", "wrap", again));
  bind("t", toggle("log-times", "times", again));
  element("log-tools").hidden = false;
  element("log-follow").addEventListener("click", () => log.setFollow(!log.follow));
  bind("f", () => log.setFollow(!log.follow));
  bind("e", () => location.assign(element("log-error").href));
  bind("n", () => log.showMatch(log.match + 1));
  bind("p", () => log.showMatch(log.match - 1));
  bind("j", () => log.step(1));
  bind("k", () => log.step(-1));
  bind("y", () => log.pick && log.select(log.pick.from, log.pick.to));
  bind("J", () => log.step(1, true));
  bind("o", () => log.pick && log.lines.at(log.pick.to)?.k === "group" && log.toggleGroup(log.pick.to));
  element("log-prev").addEventListener("click", () => log.showMatch(log.match - 1));
  element("log-next").addEventListener("click", () => log.showMatch(log.match + 1));
  const form = element("log-search");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = element("log-q").value;
    if (text && text === log.text && log.matches.length > 0) log.showMatch(log.match + 1);
    else log.search(text).catch((problem) => log.say(problem.message));
  });
  box.addEventListener("click", (event) => {
    const number = event.target.closest(".no");
    if (number) {
      event.preventDefault();
      const line = Number(number.dataset.n);
      log.select(event.shiftKey && log.pick ? log.pick.from : line, line);
      return;
    }
    const group = event.target.closest(".k-group .tx");
    if (group && !getSelection().toString()) {
      log.toggleGroup(Number(group.closest(".ln").id.slice(1))).catch((problem) => log.say(problem.message));
    }
  });
  element("steps").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-line]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      log.go(Number(link.dataset.line));
      box.focus({ preventScroll: true });
    }
  });
  document.addEventListener("refreshed", () => log.markStep());
  addEventListener("hashchange", () => log.fromHash());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) log.unwatch();
    else if (box.dataset.live) {
      log.growSoon();
      log.watch();
    }
  });
}

function start() {
  const log = new Log();
  wire(log);
  log.resize();
  const anchor = Number(box.dataset.anchor);
  if (!log.fromHash()) {
    if (anchor > 0) log.go(anchor);
    else {
      log.scroller.goEnd();
      log.load();
    }
    if (box.dataset.live && anchor === 0) log.setFollow(true);
  }
  if (box.dataset.query) log.search(box.dataset.query).catch((problem) => log.say(problem.message));
  log.watch();
  log.growSoon();
}

if (box) start();
