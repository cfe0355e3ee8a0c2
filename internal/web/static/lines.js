// Lines of one log, fetched by pages and forgotten again: a log may have a million lines,
// a browser should hold a few thousand.

const pageLines = 500;
const pagesKept = 24;
const fetchesAtOnce = 2;

export class Lines {
  constructor(base, total) {
    this.base = base;
    this.total = total;
    this.pages = new Map(); // index of the page -> its lines, in the order of use
    this.wanted = [];
    this.busy = 0;
    this.onload = () => {};
    this.onfail = () => {};
  }

  // at gives the line with that number (from 1), or nothing while it is on its way.
  at(number) {
    const index = Math.floor((number - 1) / pageLines);
    const page = this.pages.get(index);
    if (!page) return undefined;
    this.pages.delete(index); // used last, forgotten last
    this.pages.set(index, page);
    return page[(number - 1) % pageLines];
  }

  // want asks for the lines from..to; what was wanted before and is not on its way is dropped.
  want(from, to) {
    const first = Math.floor((Math.max(1, from) - 1) / pageLines);
    const last = Math.floor((Math.min(this.total, to) - 1) / pageLines);
    this.wanted = [];
    for (let index = first; index <= last; index++) if (!this.full(index)) this.wanted.push(index);
    this.pump();
  }

  full(index) {
    const page = this.pages.get(index);
    return Boolean(page) && page.length >= Math.min(pageLines, this.total - index * pageLines);
  }

  async pump() {
    while (this.busy < fetchesAtOnce && this.wanted.length > 0) {
      const index = this.wanted.shift();
      this.busy++;
      this.load(index).finally(() => {
        this.busy--;
        this.pump();
      });
    }
  }

  async load(index) {
    try {
      const answer = await this.ask(`lines.json?from=${index * pageLines}&count=${pageLines}`);
      this.pages.delete(index);
      this.pages.set(index, answer.lines);
      while (this.pages.size > pagesKept) this.pages.delete(this.pages.keys().next().value);
      this.onload(answer);
    } catch (problem) {
      this.onfail(problem);
    }
  }

  // ask fetches something about this log as JSON; a refusal becomes an Error with its sentence.
  async ask(path) {
    const answer = await fetch(`${this.base}/${path}`, { credentials: "same-origin", cache: "no-store" });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.message || `status ${answer.status}`);
    return body;
  }

  // grow fetches what came since, page by page until the end, and says whether it is final.
  async grow() {
    for (;;) {
      const index = Math.floor(this.total / pageLines);
      const answer = await this.ask(`lines.json?from=${index * pageLines}&count=${pageLines}`);
      if (answer.lines.length > 0) this.pages.set(index, answer.lines);
      const before = this.total;
      this.total = Math.max(this.total, answer.total);
      if (answer.total <= (index + 1) * pageLines || this.total === before) return answer;
      // Far behind: what lies between is fetched when it is looked at.
      const end = Math.floor((this.total - 1) / pageLines);
      if (end > index + 1) {
        const tail = await this.ask(`lines.json?from=${end * pageLines}&count=${pageLines}`);
        this.pages.set(end, tail.lines);
        this.total = Math.max(this.total, tail.total);
        return tail;
      }
    }
  }
}
