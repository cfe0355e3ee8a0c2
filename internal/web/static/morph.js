// Makes one piece of a document equal to another by changing only what differs, so that
// focus, scroll position, open parts and half-filled forms of the reader stay.

// What the reader has changed is the reader's: it is never taken from the new page.
const readers = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["value", "checked"], OPTION: ["selected"] };

function syncAttributes(old, fresh) {
  const kept = readers[old.nodeName] || [];
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

function same(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");
}

export function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE || old.nodeType === Node.COMMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || old.hasAttribute("data-keep")) return;
  syncAttributes(old, fresh);
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const named = new Map();
  for (const child of old.children) if (child.id) named.set(child.id, child);
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const known = want.id && named.get(want.id);
    if (known && same(known, want)) {
      if (known !== at) old.insertBefore(known, at);
      else at = at.nextSibling;
      morph(known, want);
      continue;
    }
    // Something without a name is matched by its place, but never takes the place of a named one.
    if (at && same(at, want) && !want.id) {
      const here = at;
      at = at.nextSibling;
      morph(here, want);
      continue;
    }
    old.insertBefore(document.importNode(want, true), at);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
