// Shortens labels so that different names stay distinct.

const RULER = document.createElement('canvas').getContext('2d');
RULER.font = '11px system-ui, sans-serif';

// Common parts of kernel names, removed from labels that do not fit, as in render/_text.py.
const COMMON = /(^|· )void |at::native::|\(anonymous namespace\)::/g;

const MIN_OWN = 30;
const LETTER_PX = 7;

// Returns a long name without these parts.
function withoutCommon(name) {
  return name.length > 40 ? name.replace(COMMON, '$1') : name;
}

// Returns the text, truncated to a width.
function fitted(text, room) {
  if (RULER.measureText(text).width <= room) return text;
  let [least, most] = [0, text.length];
  while (least < most) {
    const middle = (least + most + 1) >> 1;
    if (RULER.measureText(`${text.slice(0, middle)}…`).width <= room) least = middle; else most = middle - 1;
  }
  return least ? `${text.slice(0, least)}…` : '';
}

// Returns the longest prefix length that each text shares with another text. In sorted order, that is an adjacent text.
function sharedStarts(texts) {
  const sorted = [...new Set(texts)].sort();
  const shared = new Map(sorted.map((text) => [text, 0]));
  for (let i = 1; i < sorted.length; i++) {
    const [one, other] = [sorted[i - 1], sorted[i]];
    let length = 0;
    while (length < one.length && one[length] === other[length]) length++;
    shared.set(one, Math.max(shared.get(one), length));
    shared.set(other, Math.max(shared.get(other), length));
  }
  return shared;
}

// Returns the start of the distinctive part of a name: the start of the first word that differs from other names. For a
// name that is a prefix of others, returns the start of its end.
function ownStart(text, shared, least = MIN_OWN) {
  const at = Math.min(shared, Math.max(text.length - least, 0));
  const word = /[\w.]*$/.exec(text.slice(0, at))[0].length;
  // A long word would leave no room for the difference.
  return at === shared && word < at && word <= least / 2 ? at - word : at;
}

// Returns the names, each truncated to a width. Names that would then look the same lose the middle of their common
// prefix instead of their ends.
function fittedApart(names, room) {
  const texts = names.map((name) => (RULER.measureText(name).width <= room ? name : name.replace(COMMON, '$1')));
  const short = texts.map((text) => fitted(text, room));
  const owners = new Map();
  texts.forEach((text, i) => owners.set(short[i], (owners.get(short[i]) ?? new Set()).add(text)));
  const shared = sharedStarts(texts);
  const least = Math.min(MIN_OWN, Math.floor((room * 0.6) / LETTER_PX));
  return texts.map((text, i) => {
    if (owners.get(short[i]).size < 2) return short[i];
    const at = ownStart(text, shared.get(text), least);
    const width = RULER.measureText(text.slice(at)).width;
    const head = fitted(text.slice(0, at), Math.max(room - width, room * 0.4));
    return head + fitted(text.slice(at), room - RULER.measureText(head).width);
  });
}
