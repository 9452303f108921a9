// Pivot table: sums of cells by a row dimension and a column dimension.

const MEASURES = ['wall_ns', 'idle_ns', 'span_ns', 'kernel_ns', 'kernel_count', 'bytes'];
const NOT_KNOWN = '(none)';

function drawPivot(place, name, { columns, rows }) {
  const dimensions = columns.filter((column) => !MEASURES.includes(column));
  const chosen = { rows: 'module', columns: 'phase', values: 'span_ns' };
  const choice = (what, options) => {
    const select = element('select', {}, ...options.map((option) => element('option', { value: option }, option ? option.replace(/_ns$/, '').replaceAll('_', ' ') : 'none')));
    select.value = chosen[what];
    select.addEventListener('change', () => {
      chosen[what] = select.value;
      turn();
    });
    return element('label', {}, `${what} `, select);
  };
  const table = element('div');

  function valueOf(row) {
    const value = (measure) => row[columns.indexOf(measure)];
    return chosen.values === 'span_ns' ? value('wall_ns') + value('idle_ns') : value(chosen.values);
  }

  function turn() {
    const nameOf = (row, dimension) => (dimension ? asText(row[columns.indexOf(dimension)] ?? NOT_KNOWN) : '');
    const lines = new Map();
    const sizes = new Map();
    let whole = 0;
    for (const row of rows) {
      const value = valueOf(row);
      if (value === null) continue;
      const [line, column] = [nameOf(row, chosen.rows), nameOf(row, chosen.columns)];
      if (!lines.has(line)) lines.set(line, new Map());
      lines.get(line).set(column, (lines.get(line).get(column) ?? 0) + value);
      sizes.set(column, (sizes.get(column) ?? 0) + value);
      whole += value;
    }
    const shown = chosen.columns ? [...sizes].filter(([, size]) => size).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([column]) => column) : [];
    const sumOf = (cells) => [...cells.values()].reduce((a, b) => a + b, 0);
    const lineOf = ([line, cells]) => {
      const sum = sumOf(cells);
      return [line, ...shown.map((column) => cells.get(column) ?? 0), sum, whole ? (100 * sum) / whole : null];
    };
    // Sort numbers by value and names by size, as in tracekit pivot.
    const areNumbers = rows.every((row) => typeof (row[columns.indexOf(chosen.rows)] ?? 0) === 'number');
    const placeOf = (line) => (line[0] === NOT_KNOWN ? Infinity : Number(line[0]));
    const bySize = (a, b) => b[b.length - 2] - a[a.length - 2] || (a[0] < b[0] ? -1 : 1);
    const turned = [...lines].map(lineOf).sort(areNumbers ? (a, b) => placeOf(a) - placeOf(b) : bySize);
    if (turned.length) turned.push(lineOf(['(total)', sizes]));
    const unit = unitOf(chosen.values);
    drawTable(table, name, {
      columns: [chosen.rows, ...shown.map((column) => `${column}_${unit}`), chosen.values, 'share_pct'],
      // The column headers are names from the trace.
      isPivot: true,
      meanings: [],
      total: turned.length,
      rows: turned,
    });
  }

  turn();
  place.replaceChildren(element('div', { class: 'tools' }, choice('rows', dimensions), choice('columns', ['', ...dimensions]), choice('values', MEASURES)), table);
}
