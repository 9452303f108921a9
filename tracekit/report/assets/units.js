// How numbers are shown: the unit is the end of a column's name, as everywhere in tracekit.

const SUFFIXES = ['bytes_per_s', 'flop_per_s', 'per_s', 'bytes', 'flops', 'count', 'pct', 'hz', 'ns'];
const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
const SCALED = { bytes: 'B', bytes_per_s: 'B/s', flops: 'FLOP', flop_per_s: 'FLOP/s', hz: 'Hz' };
const DURATIONS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

function unitOf(column) {
  return SUFFIXES.find((unit) => column === unit || column.endsWith('_' + unit));
}

function digits(value, most) {
  return value.toLocaleString('en', { maximumFractionDigits: most });
}

// One value with its unit, as `4.186 ms`; what is not there is a dash.
function withUnit(column, value) {
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'number') return printable(asText(value));
  const unit = unitOf(column);
  if (unit === 'ns') {
    const [factor, name] = DURATIONS.find(([factor]) => Math.abs(value) >= factor) ?? [1, 'ns'];
    return `${digits(value / factor, 3)} ${name}`;
  }
  if (unit === 'pct') return `${value > 0 && value < 0.05 ? '<0.1' : digits(value, 1)} %`;
  if (unit === 'per_s') return `${digits(value, 3)} /s`;
  if (unit in SCALED) {
    const [factor, prefix] = PREFIXES.find(([factor]) => Math.abs(value) >= factor) ?? [1, ''];
    return `${digits(value / factor, 3)} ${prefix}${SCALED[unit]}`;
  }
  return digits(value, 6);
}

function asText(value) {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

// Controls, marks of direction and characters without width are shown as escapes: names are anybody's.
function printable(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function svgElement(name, attributes = {}, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The colours of charts are written for a light page; the style sheet has each for a dark one too.
function cssColour(hex) {
  return `var(--c-${hex.slice(1)}, ${hex})`;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element('textarea', {}, text);
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  const before = button.textContent;
  button.textContent = 'copied';
  setTimeout(() => { button.textContent = before; }, 1200);
}
