// Draws the charts that tracekit/plot describes in Vega-Lite. Supports only the features used there, and throws an error
// for all others.

const MAX_LABEL_PX = 250;

function filtered(rows, test) {
  if ('equal' in test) return rows.filter((row) => row[test.field] === test.equal);
  if ('gte' in test) return rows.filter((row) => row[test.field] >= test.gte && row[test.field] !== null);
  if ('gt' in test) return rows.filter((row) => row[test.field] > test.gt);
  if ('lt' in test) return rows.filter((row) => row[test.field] < test.lt && row[test.field] !== null);
  if ('oneOf' in test) return rows.filter((row) => test.oneOf.includes(row[test.field]));
  if ('valid' in test) return rows.filter((row) => row[test.field] !== null && row[test.field] !== undefined);
  throw new Error(`no such filter: ${JSON.stringify(test)}`);
}

// Evaluates a `calculate` transform: text concatenation ('rank ' + datum.rank), singular or plural, or a difference of
// two columns.
function calculated(rows, { calculate, as }) {
  const difference = /^datum\.(\w+) - datum\.(\w+)$/.exec(calculate);
  if (difference) return rows.map((row) => ({ ...row, [as]: row[difference[1]] - row[difference[2]] }));
  const parts = [...calculate.matchAll(/\(datum\.(\w+) === 1 \? '([^']*)' : '([^']*)'\)|'([^']*)'|datum\.(\w+)/g)];
  const text = (row) => parts.map(([, count, one, several, words, field]) => {
    if (count) return row[count] === 1 ? one : several;
    return words ?? String(row[field]);
  }).join('');
  return rows.map((row) => ({ ...row, [as]: text(row) }));
}

function transformed(rows, transforms = []) {
  for (const transform of transforms) {
    if ('filter' in transform) rows = filtered(rows, transform.filter);
    else if ('calculate' in transform) rows = calculated(rows, transform);
    else if ('fold' in transform) {
      const [key, value] = transform.as;
      rows = rows.flatMap((row) => transform.fold.map((field) => ({ ...row, [key]: field, [value]: row[field] })));
    } else if (transform.window?.[0].op === 'sum') {
      const [{ field, as }] = transform.window;
      let sum = 0;
      rows = rows.map((row) => ({ ...row, [as]: (sum += row[field]) }));
    } else throw new Error(`unknown transform: ${JSON.stringify(transform)}`);
  }
  return rows;
}

function layersOf(spec, rowsOf) {
  const base = transformed(rowsOf(spec.data.name), spec.transform);
  if (!spec.layer) return [{ mark: spec.mark, encoding: spec.encoding, rows: base }];
  return spec.layer.map((layer) => ({
    mark: layer.mark,
    encoding: { ...spec.encoding, ...layer.encoding },
    rows: transformed(layer.data ? rowsOf(layer.data.name) : base, layer.transform),
  }));
}

const isBand = (encoding) => encoding?.type === 'nominal' || encoding?.type === 'ordinal';

// Start of each bar of a stack, in the order of the legend.
function stack(layer) {
  const { x, y, color } = layer.encoding;
  if (x?.stack !== 'zero') return;
  const order = color?.scale?.domain ?? [];
  const sorted = [...layer.rows].sort((a, b) => order.indexOf(a[color?.field]) - order.indexOf(b[color?.field]));
  const ends = new Map();
  for (const row of sorted) {
    const from = ends.get(String(row[y.field])) ?? 0;
    ends.set(String(row[y.field]), from + (row[x.field] ?? 0));
    row.stack_from = from;
    row.stack_to = from + (row[x.field] ?? 0);
  }
  layer.rows = sorted;
}

function valuesOf(layers, channel) {
  return layers.flatMap(({ encoding, rows }) => {
    const { [channel]: one, [`${channel}2`]: other } = encoding;
    if (!one || isBand(one)) return [];
    if (one.stack === 'zero') return rows.flatMap((row) => [row.stack_from, row.stack_to]);
    return rows.flatMap((row) => (other ? [row[one.field], row[other.field]] : [row[one.field]]));
  });
}

function bandDomain(layers, channel) {
  const encoding = layers.map((layer) => layer.encoding[channel]).find(Boolean);
  const found = new Set();
  const largestFirst = (of, rows) => (of[channel]?.sort === '-x' ? [...rows].sort((a, b) => b[of.x.field] - a[of.x.field]) : rows);
  for (const { encoding: of, rows } of layers) {
    if (of[channel]) for (const row of largestFirst(of, rows)) found.add(row[of[channel].field]);
  }
  if (encoding.sort === '-x') return [...found];
  const sort = (encoding.sort ?? []).filter((value) => found.has(value));
  return [...sort, ...[...found].filter((value) => !sort.includes(value))];
}

function colourOf(encoding, row) {
  const colour = encoding.color;
  if (!colour) return 'currentColor';
  if ('value' in colour) return cssColour(colour.value);
  if (colour.scale?.scheme) return cssColour('#0072b2');
  const at = colour.scale.domain.indexOf(row[colour.field]);
  return at < 0 ? 'currentColor' : cssColour(colour.scale.range[at]);
}

// Name of a part (a column), without the unit if the chart has a label expression.
function partText(guide, name) {
  return guide?.labelExpr ? name.replace(/token_count$/, 'tokens').replace(/_(ns|pct|count)$/, '').replaceAll('_', ' ') : name;
}

class ChartView {
  constructor(figure, chart, rowsOf) {
    this.figure = figure;
    this.chart = chart;
    this.spec = chart.spec;
    this.layers = layersOf(chart.spec, rowsOf);
    this.layers.forEach(stack);
    this.zoomed = null;
    this.at = -1;
    this.place = element('div', { class: 'plot' });
    this.tip = element('div', { class: 'tip', role: 'status', hidden: '' });
    this.reset = element('button', { type: 'button', class: 'reset', hidden: '' }, 'reset zoom');
    this.reset.addEventListener('click', () => this.zoom(null));
    figure.append(...this.legend(), this.reset, this.place, this.tip);
    new ResizeObserver(() => this.draw()).observe(this.place);
    this.draw();
  }

  legend() {
    const { color } = (this.layers.find((layer) => layer.encoding.color?.scale) ?? this.layers[0]).encoding;
    if (!color?.scale) return [];
    const title = color.legend?.title;
    if (color.scale.scheme) return [element('p', { class: 'legend' }, `pale to full: ${title}`)];
    const items = color.scale.domain.map((name, i) => {
      const swatch = element('span', { class: 'swatch' });
      swatch.style.background = cssColour(color.scale.range[i]);
      return element('li', {}, swatch, printable(partText(color.legend, String(name))));
    });
    return [element('ul', { class: 'legend', 'aria-label': title ?? 'colours' }, ...items)];
  }

  zoom(domain) {
    this.zoomed = domain;
    this.reset.hidden = domain === null;
    this.draw();
  }

  draw() {
    const width = Math.max(this.place.clientWidth, 280);
    const bands = this.layers.some((layer) => isBand(layer.encoding.y)) ? bandDomain(this.layers, 'y') : null;
    const labels = bands?.map((value) => printable(String(value))) ?? [];
    const isNamed = bands && !this.spec.usermeta?.label;
    const widest = labels.reduce((most, label) => Math.max(most, RULER.measureText(label).width), 0) + 16;
    const most = this.layers.map((layer) => layer.encoding.y?.axis?.labelLimit).find(Boolean) ?? MAX_LABEL_PX;
    const left = isNamed ? Math.min(widest, most, width * 0.4) : bands ? 34 : 74;
    const inner = bands && this.spec.height.step ? this.spec.height.step * bands.length : this.spec.height;
    const box = { left, top: 8, right: width - 18, bottom: 8 + inner };
    const svg = svgElement('svg', {
      width, height: inner + 56, tabindex: 0, role: 'img',
      'aria-label': `${this.chart.title}. Arrow keys move between marks.`,
    });
    this.svg = svg;
    this.marks = [];
    const xs = this.axisOf('x', box.left, box.right);
    const ys = bands ? bandScale(bands, box.top, box.bottom) : this.axisOf('y', box.bottom, box.top);
    this.drawAxes(svg, box, xs, ys, isNamed, left);
    // Slightly wider than the axes, so that points on the axes are not clipped.
    const wide = Math.max(box.right - box.left, 1) + 10;
    const clip = svgElement('svg', { x: box.left - 5, y: 0, width: wide, height: inner + 16, viewBox: `${box.left - 5} 0 ${wide} ${inner + 16}` });
    for (const layer of this.layers) this.drawLayer(clip, layer, xs, ys, box);
    svg.append(clip);
    svg.addEventListener('pointermove', (event) => this.point(event));
    svg.addEventListener('pointerleave', () => this.show(-1));
    svg.addEventListener('click', () => this.open(this.at));
    svg.addEventListener('keydown', (event) => this.press(event));
    svg.addEventListener('blur', () => this.show(-1));
    this.place.replaceChildren(svg);
  }

  axisOf(channel, from, to) {
    const encoding = this.layers.map((layer) => layer.encoding[channel]).find(Boolean);
    if (isBand(encoding)) return bandScale(bandDomain(this.layers, channel), from, to);
    return numberScale(encoding, valuesOf(this.layers, channel), from, to, channel === 'x' ? this.zoomed : null, channel);
  }

  drawAxes(svg, box, xs, ys, isNamed, left) {
    const [x, y] = ['x', 'y'].map((channel) => this.layers.map((layer) => layer.encoding[channel]).find(Boolean));
    if (xs.kind === 'band') {
      for (const value of xs.domain) {
        const whole = printable(partText(x.axis, String(value)));
        const text = fitted(whole, xs.step - 6);
        const label = svgElement('text', { x: xs.centre(value), y: box.bottom + 18, 'text-anchor': 'middle' }, text);
        if (text !== whole) label.append(svgElement('title', {}, whole));
        svg.append(label);
      }
    } else {
      for (const tick of xs.ticks) {
        const at = xs.position(tick);
        svg.append(svgElement('line', { class: 'grid', x1: at, x2: at, y1: box.top, y2: box.bottom }));
        // Keep the last label inside the picture.
        const half = RULER.measureText(tickText(xs, tick)).width / 2;
        svg.append(svgElement('text', { x: Math.min(at, box.right + 17 - half), y: box.bottom + 18, 'text-anchor': 'middle' }, tickText(xs, tick)));
      }
    }
    if (x.axis?.title) {
      const half = RULER.measureText(x.axis.title).width * 0.55;
      const middle = Math.max(Math.min((box.left + box.right) / 2, box.right + 18 - half), half);
      svg.append(svgElement('text', { class: 'title', x: middle, y: box.bottom + 40, 'text-anchor': 'middle' }, x.axis.title));
    }
    if (ys.kind !== 'band') {
      for (const tick of ys.ticks) {
        const at = ys.position(tick);
        svg.append(svgElement('line', { class: 'grid', x1: box.left, x2: box.right, y1: at, y2: at }));
        svg.append(svgElement('text', { x: box.left - 8, y: at + 4, 'text-anchor': 'end' }, tickText(ys, tick)));
      }
      svg.append(svgElement('text', { class: 'title', transform: `translate(14 ${(box.top + box.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, y.axis?.title ?? ''));
      return;
    }
    const every = Math.ceil(12 / ys.step);
    const wholes = ys.domain.map((value) => printable(String(value)));
    const texts = isNamed ? fittedApart(wholes, left - 12) : wholes;
    ys.domain.forEach((value, i) => {
      if (i % every) return;
      const [whole, text] = [wholes[i], texts[i]];
      const label = svgElement('text', { x: box.left - 8, y: ys.centre(value) + 4, 'text-anchor': 'end' }, text);
      if (text !== whole) label.append(svgElement('title', {}, whole));
      svg.append(label);
    });
    if (!isNamed && y.axis?.title) svg.append(svgElement('text', { class: 'title', transform: `translate(10 ${(box.top + box.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, y.axis.title));
  }

  drawLayer(svg, layer, xs, ys, box) {
    const { mark, encoding, rows } = layer;
    const style = (made, row) => {
      made.style.fill = mark.type === 'line' ? 'none' : colourOf(encoding, row);
      if (mark.opacity) made.style.fillOpacity = mark.opacity;
      if (mark.stroke) made.setAttribute('class', 'edged');
      return made;
    };
    const keep = (made, row, x, y, domain) => {
      this.marks.push({ made, row, x, y, domain, fields: encoding.tooltip ?? [] });
      svg.append(made);
    };
    if (mark.type === 'line') return this.drawLines(layer, xs, ys, keep);
    for (const row of rows) {
      const vertical = ys.kind === 'band' ? ys.centre(row[encoding.y.field]) : ys.position(row[encoding.y?.field]);
      if (mark.type === 'bar') {
        const height = ys.step * (mark.height?.band ?? (this.spec.usermeta?.zoom ? 1 : 0.78));
        const [from, to] = encoding.x2 ? [row[encoding.x.field], row[encoding.x2.field]]
          : encoding.x.stack === 'zero' ? [row.stack_from, row.stack_to] : [0, row[encoding.x.field] ?? 0];
        const [a, b] = [xs.position(Math.min(from, to)), xs.position(Math.max(from, to))];
        if (b < box.left || a > box.right || !(b > a)) continue;
        const [x, wide] = [Math.max(a, box.left), Math.min(b, box.right) - Math.max(a, box.left)];
        const made = style(svgElement('rect', { x, y: vertical - height / 2, width: Math.max(wide, 0.5), height }), row);
        keep(made, row, x + wide / 2, vertical, [from, to]);
        if (encoding.text && wide > 26) {
          const label = fitted(printable(String(row[encoding.text.field] ?? '')), wide - 8);
          const text = svgElement('text', { class: 'inside', x: x + 4, y: vertical + 4 }, label);
          text.style.fill = made.style.fill.replace('--c-', '--on-');
          svg.append(text);
        }
      } else if (mark.type === 'point') {
        const x = xs.position(row[encoding.x.field]);
        if (Number.isFinite(x) && Number.isFinite(vertical)) keep(style(svgElement('circle', { cx: x, cy: vertical, r: Math.sqrt((mark.size ?? 60) / Math.PI) }), row), row, x, vertical);
      } else if (mark.type === 'rect') {
        const share = row[encoding.color.field] ?? 0;
        const made = style(svgElement('rect', { x: xs.start(row[encoding.x.field]), y: vertical - ys.step / 2, width: xs.step, height: ys.step, class: 'edged' }), row);
        // Low enough that the number is readable on the fullest cell, on light and dark pages.
        made.style.fillOpacity = 0.04 + 0.6 * share / 100;
        keep(made, row, xs.centre(row[encoding.x.field]), vertical);
        if (ys.step >= 13) svg.append(svgElement('text', { x: xs.centre(row[encoding.x.field]), y: vertical + 4, 'text-anchor': 'middle', class: 'on' }, withUnit(encoding.color.field, share)));
      } else throw new Error(`unknown mark: ${mark.type}`);
    }
  }

  drawLines({ mark, encoding, rows }, xs, ys, keep) {
    const field = encoding.detail?.field ?? encoding.color?.field;
    const groups = new Map();
    for (const row of rows) groups.has(row[field]) ? groups.get(row[field]).push(row) : groups.set(row[field], [row]);
    for (const group of groups.values()) {
      const points = group.filter((row) => row[encoding.y.field] !== null).map((row) => [xs.position(row[encoding.x.field]), ys.position(row[encoding.y.field]), row]);
      points.sort((a, b) => a[0] - b[0]);
      const path = points.map(([x, y], i) => (i === 0 ? `M${x} ${y}` : mark.interpolate === 'step-after' ? `H${x}V${y}` : `L${x} ${y}`)).join('');
      if (!points.length) continue;
      const line = svgElement('path', { d: path, class: 'line' });
      line.style.stroke = colourOf(encoding, group[0]);
      line.style.strokeDasharray = (mark.strokeDash ?? []).join(' ');
      this.place.dataset.lines = groups.size;
      keep(line, group[0], NaN, NaN);
      this.marks.pop();
      for (const [x, y, row] of points) {
        const dot = svgElement('circle', { cx: x, cy: y, r: mark.point ? 3 : 2, class: mark.point ? '' : 'hidden' });
        dot.style.fill = colourOf(encoding, row);
        keep(dot, row, x, y);
      }
    }
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = this.marks.findLastIndex(({ made }) => made === event.target);
    if (best < 0) {
      let least = 24 ** 2;
      this.marks.forEach((mark, i) => {
        const far = (mark.x - x) ** 2 + (mark.y - y) ** 2;
        if (mark.made.tagName === 'circle' && far < least) [best, least] = [i, far];
      });
    }
    this.show(best);
  }

  press(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) this.show((this.at + step + this.marks.length) % this.marks.length);
    else if (event.key === 'Enter') this.open(this.at);
    else if (event.key === 'Escape') this.zoom(null);
    else return;
    event.preventDefault();
  }

  open(at) {
    if (this.spec.usermeta?.zoom !== 'x' || at < 0) return;
    this.zoom(this.marks[at].domain);
    this.svg.focus();
  }

  show(at) {
    this.marks[this.at]?.made.classList.remove('at');
    this.at = at;
    const mark = this.marks[at];
    this.tip.hidden = !mark;
    if (!mark) return;
    mark.made.classList.add('at');
    const lines = mark.fields.filter(({ field }) => mark.row[field] !== null && mark.row[field] !== undefined);
    this.tip.replaceChildren(...lines.map(({ field }) => element('div', {}, element('span', {}, field), ` ${withUnit(field, mark.row[field])}`)));
    const [top, room] = [this.place.offsetTop, this.figure.clientWidth];
    this.tip.style.left = `${Math.max(0, Math.min(mark.x + 12, room - this.tip.offsetWidth - 8))}px`;
    this.tip.style.top = `${top + mark.y + 14}px`;
  }
}
