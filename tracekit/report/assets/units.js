// Formats numbers. As everywhere in tracekit, a column name ends in its unit.

const SUFFIXES = ['bytes_per_s', 'flop_per_s', 'per_s', 'bytes', 'flops', 'count', 'pct', 'hz', 'ns'];
const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
const SCALED = { bytes: 'B', bytes_per_s: 'B/s', flops: 'FLOP', flop_per_s: 'FLOP/s', hz: 'Hz' };
const DURATIONS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

function unitOf(column) {
  return SUFFIXES.find((unit) => column === unit || column.endsWith('_' + unit));
}

const FORMATS = new Map();

// Formats a number with a maximum and a minimum number of decimals.
function digits(value, most, least = 0) {
  const key = most * 100 + least;
  // Creating a formatter is far slower than using it.
  if (!FORMATS.has(key)) FORMATS.set(key, new Intl.NumberFormat('en', { minimumFractionDigits: least, maximumFractionDigits: most }));
  const text = FORMATS.get(key).format(value);
  return /^-[0.]+$/.test(text) ? text.slice(1) : text;
}

// Returns a suitable unit for a number: [factor, maximum decimals, unit].
function stepOf(column, value) {
  const unit = unitOf(column);
  if (unit === 'ns') {
    const [factor, name] = DURATIONS.find(([factor]) => Math.abs(value) >= factor) ?? [1, 'ns'];
    return [factor, 3, name];
  }
  if (unit === 'pct') return [1, 1, '%'];
  if (unit === 'per_s') return [1, 3, '/s'];
  if (unit in SCALED) {
    const [factor, prefix] = PREFIXES.find(([factor]) => Math.abs(value) >= factor) ?? [1, ''];
    return [factor, 3, prefix + SCALED[unit]];
  }
  return [1, Math.abs(value) < 1 ? 6 : 3, ''];
}

// Returns the common unit of the numbers of a column, and a function that formats them.
function formatOf(column, values) {
  const numbers = values.filter((value) => typeof value === 'number');
  const largest = numbers.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  // Longer times are also in ms, as in a terminal.
  const [factor, , unit] = stepOf(column, unitOf(column) === 'ns' ? Math.min(largest || 1e6, 1e6) : largest);
  const most = Math.max(0, ...new Set(numbers.map((value) => stepOf(column, value)[1])));
  const needed = (value) => String(Number((value / factor).toFixed(most))).split('.')[1]?.length ?? 0;
  const decimals = numbers.reduce((all, value) => Math.max(all, needed(value)), 0);
  // With a unit, numbers with decimals have the maximum of the unit.
  const least = unit && decimals ? most : decimals;
  return { unit, format: (value) => atLeast(value, value / factor, most, least) };
}

// Formats a number; a positive one that would be rounded to 0 is shown as, for example, `<0.1`.
function atLeast(value, number, most, least) {
  const text = digits(number, most, least);
  return value > 0 && /^[0.]+$/.test(text) ? `<${10 ** -most}` : text;
}

// Returns a value with its unit, such as `4.186 ms`, or a dash if it is missing.
function withUnit(column, value) {
  if (value === null || value === undefined) return '–';
  if (Array.isArray(value)) return printable(value.map((one) => asText(one ?? '–')).join(', ')) || '–';
  if (typeof value !== 'number') return printable(asText(value));
  const [factor, most, unit] = stepOf(column, value);
  return `${atLeast(value, value / factor, most, 0)} ${unit}`.trim();
}

function asText(value) {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

// Escapes control characters, direction marks, and zero-width characters, because names are untrusted. Also escapes
// accents after the fourth on a letter, which would cover other text.
function printable(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?<=\p{M}{4})\p{M}/gu, (character) => {
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

// Chart colors are for light pages; the style sheet maps each of them for dark pages.
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
