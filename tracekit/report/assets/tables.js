// Tables that can be sorted, filtered, and copied as CSV in exact base units.

const FIRST_ROWS = 12;

// Order of health checks. Warnings come first and are always visible.
const SEVERITIES = ['warn', 'note', 'ok'];
const MAX_FIRST_ROWS = 60;

// Columns of sentences, which may wrap. Names are truncated, with the complete name as a tooltip.
const SENTENCES = ['meaning', 'reason', 'reasons', 'notes'];

// Names that share a longer prefix would look the same if truncated at the end.
const MAX_SHARED = 45;

const MIN_ZOOM = 0.75;

function drawTable(place, name, data) {
  const { columns, meanings, total } = data;
  // Show a value with its unit from column `unit`.
  const unit = columns.includes('value') ? columns.indexOf('unit') : -1;
  // Lists of numbers are for charts.
  const isEmpty = (value) => value === null || (Array.isArray(value) && typeof value[0] === 'number');
  const isShown = columns.map((column, c) => c !== unit && !OF_ONE.includes(column) && !(data.rows.length && data.rows.every((row) => isEmpty(row[c]))));
  const severity = columns.indexOf('severity');
  const placeOf = (row) => SEVERITIES.indexOf(row[severity]);
  const rows = severity < 0 ? data.rows : [...data.rows].sort((a, b) => placeOf(a) - placeOf(b));
  const warned = severity < 0 ? 0 : rows.filter((row) => row[severity] === 'warn').length;
  const firstRows = Math.min(Math.max(FIRST_ROWS, warned), MAX_FIRST_ROWS);
  const isNumber = columns.map((_, c) => rows.some((row) => typeof row[c] === 'number'));
  const valuesOf = (c) => rows.map((row) => row[c]);
  const isPivoted = columns.map((_, c) => data.isPivot && c > 0 && c < columns.length - 1);
  const cells = rows.flatMap((row) => row.filter((_, c) => isPivoted[c]));
  const formats = columns.map((column, c) => formatOf(column, isPivoted[c] ? cells : valuesOf(c)));
  const shared = columns.map((_, c) => sharedStarts(valuesOf(c).filter((value) => typeof value === 'string').map(withoutCommon).filter((value) => value.length > MAX_SHARED)));
  let shown = rows;
  let limit = firstRows;
  let sorted = { column: -1, direction: 1 };

  const filter = element('input', { type: 'search', placeholder: 'filter', 'aria-label': `filter ${name}` });
  const count = element('span', { class: 'count', 'aria-live': 'polite' });
  const csv = element('button', { type: 'button' }, 'copy as CSV');
  const all = element('button', { type: 'button', class: 'all' });
  const printed = element('p', { class: 'printed' });
  const head = element('tr');
  const body = element('tbody');
  const table = element('table', { 'data-table': name }, element('thead', {}, head), body);

  const heads = columns.map((column, c) => {
    const button = element('button', { type: 'button', title: meanings[c] ? `${column}: ${meanings[c]}` : `sort by ${column}` }, ...(data.isPivot && c && c < columns.length - 2 ? [...breakable(stemOf(column)), formats[c].unit && ` ${formats[c].unit}`] : [headOf(column, formats[c].unit)]));
    const cell = element('th', { scope: 'col', class: isNumber[c] ? 'number' : '', 'aria-sort': 'none' }, button);
    button.addEventListener('click', () => sortBy(c));
    if (isShown[c]) head.append(cell);
    return cell;
  });

  function sortBy(c) {
    const first = isNumber[c] ? -1 : 1;
    sorted = { column: c, direction: sorted.column === c ? -sorted.direction : first };
    const state = sorted.direction > 0 ? 'ascending' : 'descending';
    heads.forEach((cell, at) => cell.setAttribute('aria-sort', at === c ? state : 'none'));
    update();
  }

  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === 'number' && typeof b === 'number') return (a - b) * sorted.direction;
    return asText(a).localeCompare(asText(b)) * sorted.direction;
  }

  function update() {
    const word = filter.value.trim().toLowerCase();
    shown = word ? rows.filter((row) => row.some((v) => v !== null && asText(v).toLowerCase().includes(word))) : [...rows];
    if (sorted.column >= 0) shown.sort((a, b) => compare(a[sorted.column], b[sorted.column]));
    body.replaceChildren(...shown.slice(0, limit).map((row, i) => drawRow(row, shown[i - 1])));
    const hidden = shown.length - Math.min(limit, shown.length);
    count.textContent = `${digits(shown.length, 0)} of ${digits(total, 0)} ${total === 1 ? 'row' : 'rows'}`
      + (total > rows.length ? `; ${digits(total - rows.length, 0)} omitted` : '');
    printed.textContent = hidden ? `the first ${digits(limit, 0)} of ${digits(shown.length, 0)} rows` : '';
    all.hidden = hidden === 0 && limit === firstRows;
    all.textContent = hidden ? `show ${digits(hidden, 0)} more` : 'show fewer';
  }

  function drawRow(row, above) {
    const line = element('tr', severity >= 0 && row[severity] === 'warn' ? { class: 'warn' } : {});
    row.forEach((value, c) => {
      if (!isShown[c]) return;
      const column = unit >= 0 && c === columns.indexOf('value') ? `value_${row[unit]}` : columns[c];
      line.append(typeof value === 'number' ? drawNumber(value, c, column) : drawText(value, c, above));
    });
    return line;
  }

  function drawNumber(value, c, column) {
    const text = column === columns[c] ? formats[c].format(value) : withUnit(column, value);
    return element('td', { class: 'number', title: `${column} = ${value}` }, text);
  }

  function drawText(value, c, above) {
    const whole = withUnit(columns[c], value);
    const name = typeof value === 'string' ? withoutCommon(value) : whole;
    // For a file, show its name and its folder.
    const text = columns[c] === 'file' ? whole.split('/').slice(-2).join('/') : printable(name);
    const cell = element('td', isNumber[c] ? { class: 'number' } : {});
    if (text.length > 40 || text !== whole) cell.title = whole;
    // A sentence that repeats the row above is not wrapped.
    if (text.length > 60 && SENTENCES.includes(columns[c]) && above?.[c] !== value) cell.className = 'long';
    const common = columns[c] === 'file' ? 0 : shared[c].get(name) ?? 0;
    if (text.length <= 40 || cell.className) cell.append(text);
    else if (common < MAX_SHARED) cell.append(element('span', { class: 'text' }, text));
    else {
      const at = printable(name.slice(0, ownStart(name, common))).length;
      cell.append(element('span', { class: 'text apart' }, element('span', { class: 'shared' }, text.slice(0, at)), element('span', { class: 'own' }, text.slice(at))));
    }
    return cell;
  }

  filter.addEventListener('input', update);
  all.addEventListener('click', () => {
    limit = limit === firstRows ? Infinity : firstRows;
    update();
  });
  csv.addEventListener('click', () => copy(asCsv(columns, shown), csv));
  update();
  // A single row needs no filter and no CSV.
  const tools = rows.length > 1 || total > 1 ? [element('div', { class: 'tools' }, filter, csv, count)] : [];
  place.replaceChildren(...tools, element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `table ${name}` }, table), printed, all);
  if (rows.length === 1) table.classList.add('single');
  fitTable(table);
}

// A single row that is too wide becomes a list. Other tables shrink slightly before they scroll.
function fitTable(table) {
  table.style.zoom = '';
  const room = table.parentElement.clientWidth;
  if (!room || table.offsetWidth <= room) return;
  if (table.classList.contains('single')) table.classList.add('list');
  else table.style.zoom = Math.max(MIN_ZOOM, room / table.offsetWidth);
}

function stemOf(column) {
  const unit = unitOf(column);
  return unit ? column.slice(0, -unit.length - 1) : column;
}

// Header of a column: its name in words, and the unit of its cells.
function headOf(column, shownUnit) {
  const unit = unitOf(column);
  const words = stemOf(column).replaceAll('_', ' ') || { bytes: 'size', ns: 'time' }[unit] || '';
  if (!shownUnit) return column.replaceAll('_', ' ');
  return unit === 'per_s' ? `${words}/s` : `${words} ${shownUnit}`.trim();
}

// A name with line break opportunities between its words, for narrow columns in print.
function breakable(name) {
  return name.split(/(?<=_)/).flatMap((word, i) => (i ? [element('wbr'), word] : [word]));
}

function asCsv(columns, rows) {
  const cell = (value) => {
    // A spreadsheet would evaluate text that starts like a formula.
    let text = value === null ? '' : asText(value);
    if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
}
