// Shows a few hundred rows of a list of millions as if all were there.
//
// The rows that exist sit in one block on a canvas as high as all rows would be, or as high
// as browsers allow. A small movement scrolls the block like any text, and rows are added at
// its ends before they are missed; a large one (the scroll bar was dragged) builds a new
// block at the proportional place. Rows may have any height: the block is always placed by a
// row that the reader sees, so nothing moves under their eyes; when the scrolling has come to
// rest, block and scroll bar are brought to where they belong, together.

const rowHeight = 20;
const canvasMost = 15e6; // browsers cut elements above about 17 million pixels
const restDelay = 150;

export class Scroller {
  // draw makes the element of a row; it is called for every row that comes into sight.
  constructor(box, draw) {
    this.box = box;
    this.draw = draw;
    this.block = box.querySelector(".loglines");
    this.canvas = document.createElement("div");
    this.rows = 0;
    this.start = 0;
    this.end = 0;
    this.top = 0;
    this.lastTop = 0;
    this.rest = 0;
    this.onmove = () => {};
    this.canvas.append(this.block);
    box.append(this.canvas);
    box.classList.add("virtual");
    box.addEventListener("scroll", () => this.moved(), { passive: true });
    new ResizeObserver(() => this.redraw()).observe(box);
  }

  get view() {
    return this.box.clientHeight;
  }

  get height() {
    return Math.min(canvasMost, this.rows * rowHeight);
  }

  // seen is how many rows fit; reach is how far the first one can go.
  get seen() {
    return Math.max(1, Math.floor(this.view / rowHeight));
  }

  placeOf(row) {
    const reach = Math.max(1, this.rows - this.seen);
    return (row / reach) * Math.max(0, this.canvas.offsetHeight - this.view);
  }

  resize(rows) {
    this.rows = rows;
    this.canvas.style.height = `${this.height}px`;
  }

  // first is the first row in sight and its distance from the upper edge.
  first() {
    const above = this.box.scrollTop - this.top;
    let low = 0;
    let high = this.block.children.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const row = this.block.children[middle];
      if (row.offsetTop + row.offsetHeight > above) high = middle;
      else low = middle + 1;
    }
    const row = this.block.children[low];
    if (!row) return { row: 0, offset: 0 };
    return { row: this.start + low, offset: row.offsetTop - above };
  }

  moved() {
    const top = this.box.scrollTop;
    const far = Math.abs(top - this.lastTop) > 2 * this.view;
    this.lastTop = top;
    const blockEnd = this.top + this.block.offsetHeight;
    if (far || top + this.view < this.top || top > blockEnd) {
      const most = Math.max(1, this.canvas.offsetHeight - this.view);
      this.show(Math.round((top / most) * Math.max(0, this.rows - this.seen)), 0);
    } else {
      const lacksAbove = this.start > 0 && top - this.top < this.view / 2;
      const lacksBelow = this.end < this.rows && blockEnd - (top + this.view) < this.view / 2;
      if (lacksAbove || lacksBelow) {
        const at = this.first();
        this.show(at.row, at.offset);
      }
    }
    this.onmove();
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.settle(), restDelay);
  }

  // show builds the block around a row and puts that row at the given distance from the upper
  // edge of what is seen.
  show(row, offset) {
    row = Math.max(0, Math.min(this.rows - 1, row));
    this.start = Math.max(0, row - 2 * this.seen);
    this.end = Math.min(this.rows, row + 3 * this.seen);
    const elements = [];
    for (let at = this.start; at < this.end; at++) elements.push(this.draw(at));
    this.block.replaceChildren(...elements);
    const shown = this.block.children[row - this.start];
    this.place(this.box.scrollTop + offset - (shown ? shown.offsetTop : 0));
  }

  // place puts the block at a height, but ends at the ends: the first row is on top of the
  // canvas and the last at its bottom, and the view moves with them.
  place(top) {
    if (this.start === 0 && this.end === this.rows) {
      this.canvas.style.height = `${this.block.offsetHeight}px`;
      this.shift(top, 0);
    } else if (this.start === 0) {
      this.shift(top, 0);
    } else if (this.end === this.rows) {
      this.shift(top, this.canvas.offsetHeight - this.block.offsetHeight);
    } else {
      this.shift(top, top);
    }
  }

  shift(from, to) {
    this.top = to;
    this.block.style.top = `${to}px`;
    if (from !== to) this.box.scrollTop += to - from;
    this.lastTop = this.box.scrollTop;
  }

  // settle undoes the drift between block and scroll bar that rows of other heights leave.
  settle() {
    const at = this.first();
    const ideal = this.placeOf(at.row) - at.offset;
    const drift = ideal - this.box.scrollTop;
    const inside = this.start > 0 && this.end < this.rows;
    if (inside && Math.abs(drift) > this.view / 2) {
      this.top += drift;
      this.block.style.top = `${this.top}px`;
      this.box.scrollTop += drift;
      this.lastTop = this.box.scrollTop;
    }
  }

  // redraw builds the same rows again: something about them changed.
  redraw() {
    if (this.rows === 0) {
      this.block.replaceChildren();
      return;
    }
    const at = this.first();
    this.show(at.row, at.offset);
  }

  // go shows a row a third from the top.
  go(row) {
    const offset = Math.floor(this.seen / 3) * rowHeight;
    this.box.scrollTop = this.placeOf(row) - offset;
    this.lastTop = this.box.scrollTop;
    this.show(row, Math.min(offset, row * rowHeight));
  }

  get atEnd() {
    return this.end === this.rows && this.box.scrollTop + this.view >= this.top + this.block.offsetHeight - rowHeight;
  }

  goEnd() {
    if (this.rows === 0) return;
    this.box.scrollTop = this.canvas.offsetHeight;
    this.show(this.rows - 1, this.view - rowHeight);
    this.box.scrollTop = this.canvas.offsetHeight;
    this.lastTop = this.box.scrollTop;
  }
}
