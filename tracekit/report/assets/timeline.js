// Timeline with one row per stream, from the complete trace down to single kernels. Events narrower than a pixel are
// summed per pixel, so a frame costs at most the pixels of the visible rows.

const ROW_PX = 20;
const GAP_PX = 4;
const AXIS_PX = 26;
const MAX_ROWS_PX = 420;
const MAX_LANES = 4;

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

async function openTimeline(place) {
  const packed = document.getElementById('events-data').textContent;
  const view = new TimelineView(place, await unpacked(packed));
  // For tests and the browser console.
  place.timeline = view;
  place.dataset.events = view.count;
}

class TimelineView {
  constructor(place, data) {
    this.place = place;
    this.data = data;
    this.lanes = data.tracks.flatMap((track) => lanesOf(track));
    this.count = this.lanes.reduce((sum, lane) => sum + lane.start.length, 0);
    const ends = this.lanes.map((lane) => lane.lastEnd);
    this.first = Math.min(...this.lanes.map((lane) => lane.start[0]));
    this.last = Math.max(...ends, this.first + 1);
    [this.from, this.to] = [this.first, this.last];
    this.top = 0;
    this.found = [];
    this.path = this.lanes.flatMap((lane, at) => [...lane.path].flatMap((is, index) => (is ? [{ lane, at, index }] : [])));
    this.path.sort((a, b) => a.lane.start[a.index] - b.lane.start[b.index]);
    this.build();
    this.colourBy('kind');
    addEventListener('themechange', () => this.colourBy(this.by));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.colourBy(this.by));
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.resize();
  }

  build() {
    const by = element('select', { 'aria-label': 'color by' }, ...['kind', 'class', 'phase'].map((name) => element('option', { value: name }, name)));
    by.addEventListener('change', () => this.colourBy(by.value));
    this.search = element('input', { type: 'search', placeholder: 'search kernels and modules', 'aria-label': 'search kernels and modules' });
    this.search.addEventListener('input', () => this.find(this.search.value));
    this.search.addEventListener('keydown', (event) => { if (event.key === 'Enter') this.next(event.shiftKey ? -1 : 1); });
    this.hits = element('span', { class: 'count', 'aria-live': 'polite' });
    const button = (text, label, action) => element('button', { type: 'button', 'aria-label': label, onclick: action }, text);
    const tools = element('div', { class: 'tools' }, 'color by ', by, this.search,
      button('‹', 'previous match', () => this.next(-1)), button('›', 'next match', () => this.next(1)), this.hits,
      button('+', 'zoom in', () => this.zoom(0.5)), button('−', 'zoom out', () => this.zoom(2)), button('all', 'show the complete trace', () => this.show(this.first, this.last)));
    if (this.path.length) {
      this.withPath = element('input', { type: 'checkbox', checked: '' });
      this.withPath.addEventListener('change', () => this.redraw());
      tools.append(element('label', { title: 'critical path of the rank with the longest window; gaps between marks are on the host' }, this.withPath, ' critical path'));
    }
    if (PAGE.view) {
      const open = element('button', { type: 'button', title: 'command that opens the visible interval in Perfetto' }, 'copy command for Perfetto');
      open.addEventListener('click', () => copy(this.viewCommand(), open));
      tools.append(open);
    }
    this.legend = element('ul', { class: 'legend' });
    const height = Math.min(this.lanes.length * (ROW_PX + GAP_PX), MAX_ROWS_PX) + AXIS_PX;
    this.canvas = element('canvas', {
      tabindex: '0', role: 'application', height,
      'aria-label': 'Timeline of device events. Plus and minus zoom, left and right move, up and down scroll, Enter describes the search match or the event in the middle, 0 shows everything.',
    });
    this.canvas.style.height = `${height}px`;
    const cut = this.data.cut ? ` Names are truncated to ${this.data.cut} characters, also for search.` : '';
    this.details = element('div', { class: 'event-details', 'aria-live': 'polite' },
      `Point at or click an event for details. Drag to move, and use Ctrl and the wheel to zoom.${cut}`);
    this.place.replaceChildren(tools, this.legend, this.canvas, this.details);
    this.canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener('pointerdown', (event) => this.grab(event));
    this.canvas.addEventListener('pointermove', (event) => this.move(event));
    this.canvas.addEventListener('dblclick', (event) => { const hit = this.at(event.offsetX, event.offsetY); if (hit) this.showEvent(hit); });
    this.canvas.addEventListener('keydown', (event) => this.press(event));
  }

  colourBy(by) {
    this.by = by;
    const style = getComputedStyle(document.documentElement);
    const names = { kind: this.data.kinds, class: this.data.classes, phase: this.data.phases }[by];
    const hexes = this.data.colours[by];
    this.palette = names.map((_, i) => style.getPropertyValue(`--c-${hexes[i].slice(1)}`).trim() || hexes[i]);
    this.inks = names.map((_, i) => style.getPropertyValue(`--on-${hexes[i].slice(1)}`).trim() || '#000');
    this.pixels = this.palette.map(abgr);
    this.legend.replaceChildren(...names.map((name, i) => {
      const swatch = element('span', { class: 'swatch' });
      swatch.style.background = this.palette[i];
      return element('li', {}, swatch, printable(String(name)));
    }));
    this.ink = style.getPropertyValue('--ink').trim();
    this.faint = style.getPropertyValue('--line').trim();
    this.redraw();
  }

  resize() {
    const width = Math.max(this.canvas.clientWidth, 200);
    this.scale = devicePixelRatio || 1;
    this.width = width;
    this.height = this.canvas.clientHeight;
    this.canvas.width = width * this.scale;
    this.canvas.height = this.height * this.scale;
    this.left = Math.min(190, width * 0.25);
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  show(from, to) {
    const least = 20;
    const middle = (from + to) / 2;
    const span = Math.min(Math.max(to - from, least), this.last - this.first);
    const start = Math.min(Math.max(middle - span / 2, this.first), this.last - span);
    [this.from, this.to] = [start, start + span];
    this.redraw();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  scroll(rows) {
    const most = Math.max(0, this.lanes.length * (ROW_PX + GAP_PX) - (this.height - AXIS_PX));
    this.top = Math.min(Math.max(this.top + rows * (ROW_PX + GAP_PX), 0), most);
    this.redraw();
  }

  draw() {
    if (!this.palette || !this.width) return;
    const context = this.canvas.getContext('2d');
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const plot = Math.max(Math.floor(this.width - this.left), 1);
    const perNs = plot / (this.to - this.from);
    const first = Math.floor(this.top / (ROW_PX + GAP_PX));
    const last = Math.min(this.lanes.length, Math.ceil((this.top + this.height - AXIS_PX) / (ROW_PX + GAP_PX)));
    this.drawAxis(context, plot, perNs);
    const thin = context.createImageData(plot, Math.max(last - first, 1));
    const cells = new Uint32Array(thin.data.buffer);
    const wide = [];
    for (let at = first; at < last; at++) this.sum(this.lanes[at], at, cells.subarray((at - first) * plot, (at - first + 1) * plot), perNs, plot, wide);
    this.thin ??= document.createElement('canvas');
    [this.thin.width, this.thin.height] = [plot, thin.height];
    this.thin.getContext('2d').putImageData(thin, 0, 0);
    context.save();
    context.beginPath();
    context.rect(0, AXIS_PX, this.width, this.height - AXIS_PX);
    context.clip();
    context.imageSmoothingEnabled = false;
    context.font = '11px system-ui, sans-serif';
    for (let at = first; at < last; at++) {
      const y = this.rowTop(at);
      context.drawImage(this.thin, 0, at - first, plot, 1, this.left, y, plot, ROW_PX);
      context.fillStyle = this.ink;
      context.fillText(this.lanes[at].label, 4, y + 14, this.left - 10);
    }
    const isTile = ({ lane, index }) => lane.isTile[index];
    wide.sort((a, b) => isTile(b) - isTile(a) || a.colour - b.colour);
    for (const { lane, at, index, x, w, colour } of wide) {
      const y = this.rowTop(at);
      context.fillStyle = this.palette[colour];
      context.globalAlpha = lane.isTile[index] ? 0.5 : 1;
      context.fillRect(this.left + x, y, Math.max(w - (w > 3 ? 1 : 0), 1), ROW_PX);
    }
    context.globalAlpha = 1;
    this.drawNames(context, wide);
    if (this.withPath?.checked) this.drawPath(context, perNs);
    this.drawMarks(context, perNs);
    context.restore();
  }

  rowTop(at) {
    return AXIS_PX + at * (ROW_PX + GAP_PX) - this.top;
  }

  // Sums events narrower than two pixels into cells, with the color of the longest event, and appends the others to
  // wide.
  sum(lane, at, cells, perNs, plot, wide) {
    const { start, end } = lane;
    const colours = lane[this.by];
    let cell = -1;
    let longest = 0;
    let colour = 0;
    let held = 0;
    const put = () => {
      if (cell < 0 || cell >= plot) return;
      const strength = Math.min(255, 90 + Math.round(held * 165));
      cells[cell] = (this.pixels[colour] & 0xffffff) | (strength << 24);
    };
    for (let i = lowerBound(lane.endSoFar, this.from); i < start.length && start[i] < this.to; i++) {
      const x = (start[i] - this.from) * perNs;
      const w = (end[i] - start[i]) * perNs;
      if (w >= 2) {
        const from = Math.max(x, 0);
        wide.push({ lane, at, index: i, x: from, w: Math.min(x + w, plot) - from, colour: colours[i] });
        continue;
      }
      const here = Math.floor(Math.max(x, 0));
      if (here !== cell) {
        put();
        [cell, longest, held] = [here, 0, 0];
      }
      held += w;
      if (w >= longest) [longest, colour] = [w, colours[i]];
    }
    put();
  }

  drawNames(context, wide) {
    context.font = '11px system-ui, sans-serif';
    for (const { lane, at, index, x, w, colour } of wide) {
      if (w < 40) continue;
      context.fillStyle = this.inks[colour];
      // Measure the text, because letters differ in width; skip text that cannot fit even in the narrowest letters.
      const text = fitted(this.nameOf(lane, index).slice(0, w / 2), w - 8);
      context.fillText(text, this.left + x + 4, this.rowTop(at) + 14);
    }
  }

  // Draws a line along the top of the work on the critical path, and between consecutive work.
  drawPath(context, perNs) {
    context.strokeStyle = this.ink;
    context.lineWidth = 2;
    context.beginPath();
    let before = null;
    for (const { lane, at, index } of this.path) {
      const from = this.left + (lane.start[index] - this.from) * perNs;
      const to = Math.max(this.left + (lane.end[index] - this.from) * perNs, from + 0.5);
      const y = this.rowTop(at) + 1;
      if (to >= this.left) {
        if (before) context.moveTo(Math.max(before.to, this.left), before.y);
        context[before ? 'lineTo' : 'moveTo'](Math.max(from, this.left), y);
        context.lineTo(to, y);
      }
      before = { to, y };
      if (from > this.width) break;
    }
    context.stroke();
  }

  drawMarks(context, perNs) {
    context.strokeStyle = this.ink;
    context.lineWidth = 1.5;
    const mark = ({ lane, at, index }) => {
      const x = (lane.start[index] - this.from) * perNs;
      const w = Math.max((lane.end[index] - lane.start[index]) * perNs, 2);
      if (x + w >= 0) context.strokeRect(this.left + Math.max(x, -2), this.rowTop(at) - 1, Math.min(w, this.width), ROW_PX + 2);
    };
    for (const hit of this.found.slice(0, 2000)) {
      if (hit.lane.end[hit.index] >= this.from && hit.lane.start[hit.index] <= this.to) mark(hit);
    }
    if (this.chosen) { context.lineWidth = 3; mark(this.chosen); }
  }

  drawAxis(context, plot, perNs) {
    const [factor, unit] = DURATIONS.find(([factor]) => this.to - this.from >= factor * 2) ?? [1, 'ns'];
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = this.ink;
    context.strokeStyle = this.faint;
    context.fillText(`time, ${unit}`, 4, 16);
    for (const tick of linearTicks(this.from / factor, this.to / factor, plot / 110)) {
      const x = this.left + (tick * factor - this.from) * perNs;
      context.beginPath();
      context.moveTo(x, 20);
      context.lineTo(x, this.height);
      context.stroke();
      const text = tick.toLocaleString('en', { maximumSignificantDigits: 9 });
      context.fillText(text, Math.min(x + 3, this.width - context.measureText(text).width - 3), 16);
    }
  }

  // Several ranks are opened completely, because Perfetto aligns them by clocks, not by first events.
  viewCommand() {
    const isOne = new Set(this.lanes.map((lane) => lane.trace)).size === 1;
    const isWhole = this.from <= this.first && this.to >= this.last;
    if (!isOne || isWhole) return PAGE.view;
    return `${PAGE.view} --from ${Math.max(0, Math.floor(this.from))}ns --to ${Math.ceil(this.to)}ns`;
  }

  nameOf(lane, index) {
    if (lane.isTile[index]) return `${digits(lane.count[index], 0)} short events`;
    return printable(this.data.names[lane.name[index]] ?? '');
  }

  at(x, y) {
    const at = Math.floor((y - AXIS_PX + this.top) / (ROW_PX + GAP_PX));
    const lane = this.lanes[at];
    if (!lane || x < this.left || y < AXIS_PX) return null;
    const perNs = (this.width - this.left) / (this.to - this.from);
    const time = this.from + (x - this.left) / perNs;
    const slack = 2 / perNs;
    let best = null;
    for (let i = lowerBound(lane.endSoFar, time - slack); i < lane.start.length && lane.start[i] <= time + slack; i++) {
      const far = Math.max(lane.start[i] - time, time - lane.end[i], 0);
      if (far <= slack && (!best || far < best.far)) best = { lane, at, index: i, far };
    }
    return best;
  }

  tell(hit) {
    if (!hit) return;
    const { lane, index } = hit;
    const say = (name, value) => element('div', {}, element('span', {}, name), ` ${value}`);
    const lines = [say(lane.isTile[index] ? 'tile' : 'name', this.nameOf(lane, index)),
      say('start', withUnit('start_ns', lane.start[index])), say('duration', withUnit('dur_ns', lane.end[index] - lane.start[index]))];
    if (lane.isTile[index]) lines.push(say('busy', withUnit('kernel_ns', lane.busy[index])), say('kind', this.data.kinds[lane.kind[index]]));
    else {
      lines.push(say('class', this.data.classes[lane.class[index]]), say('phase', this.data.phases[lane.phase[index]]));
      const module = this.data.modules[lane.module[index]];
      if (module) lines.push(say('module', printable(module)));
      if (lane.path[index]) lines.push(say('critical path', 'goes through it'));
      if (lane.event) lines.push(say('event', `${lane.event[index]} of trace ${lane.trace}`));
    }
    this.details.replaceChildren(...lines);
  }

  choose(hit) {
    this.chosen = hit;
    this.tell(hit);
    this.redraw();
  }

  showEvent(hit) {
    const { lane, index, at } = hit;
    const span = Math.max(lane.end[index] - lane.start[index], 20);
    const top = at * (ROW_PX + GAP_PX);
    if (top < this.top || top > this.top + this.height - AXIS_PX - ROW_PX) { this.top = 0; this.scroll(at); }
    this.show(lane.start[index] - span * 2, lane.end[index] + span * 2);
    this.choose(hit);
  }

  find(text) {
    const word = text.trim().toLowerCase();
    const match = (names) => new Set(names.flatMap((name, i) => (name?.toLowerCase().includes(word) ? [i] : [])));
    const [names, modules] = word ? [match(this.data.names), match(this.data.modules)] : [new Set(), new Set()];
    this.found = [];
    this.lanes.forEach((lane, at) => {
      for (let i = 0; word && i < lane.start.length; i++) {
        if (!lane.isTile[i] && (names.has(lane.name[i]) || modules.has(lane.module[i]))) this.found.push({ lane, at, index: i });
      }
    });
    this.step = -1;
    this.hits.textContent = word ? `${digits(this.found.length, 0)} found` : '';
    this.redraw();
  }

  next(by) {
    if (!this.found.length) return;
    this.step = (this.step + by + this.found.length) % this.found.length;
    this.hits.textContent = `${digits(this.step + 1, 0)} of ${digits(this.found.length, 0)} found`;
    this.showEvent(this.found[this.step]);
  }

  wheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    if (event.shiftKey) return this.scroll(Math.sign(event.deltaY));
    const time = this.from + (event.offsetX - this.left) / (this.width - this.left) * (this.to - this.from);
    this.zoom(1.0015 ** event.deltaY, time);
  }

  grab(event) {
    const start = { x: event.clientX, y: event.clientY, from: this.from, to: this.to, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
    const drag = (moved) => {
      if (Math.abs(moved.clientX - start.x) > 3) start.moved = true;
      const by = (start.x - moved.clientX) / (this.width - this.left) * (start.to - start.from);
      if (start.moved) this.show(start.from + by, start.to + by);
    };
    this.canvas.addEventListener('pointermove', drag);
    this.canvas.addEventListener('pointerup', () => {
      this.canvas.removeEventListener('pointermove', drag);
      if (!start.moved) this.choose(this.at(event.offsetX, event.offsetY));
    }, { once: true });
  }

  move(event) {
    if (!this.chosen && !event.buttons) this.tell(this.at(event.offsetX, event.offsetY));
  }

  press(event) {
    const action = {
      '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), w: () => this.zoom(0.5), '-': () => this.zoom(2), s: () => this.zoom(2),
      ArrowLeft: () => this.pan(-0.15), a: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), d: () => this.pan(0.15),
      ArrowUp: () => this.scroll(-1), ArrowDown: () => this.scroll(1), 0: () => this.show(this.first, this.last),
      Escape: () => this.choose(null), '/': () => this.search.focus(),
      Enter: () => (this.found.length ? this.next(1) : this.choose(this.middle())),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  }

  middle() {
    const x = this.left + (this.width - this.left) / 2;
    for (let at = 0; at < this.lanes.length; at++) {
      const hit = this.at(x, this.rowTop(at) + 4);
      if (hit) return hit;
    }
    return null;
  }
}

// One row per stream; up to four if its events overlap.
function lanesOf(track) {
  const ends = [];
  const members = [];
  let start = 0;
  const starts = track.start.map((delta) => (start += delta));
  starts.forEach((from, i) => {
    let row = 0;
    // Tiles are drawn behind events.
    if (track.name[i] >= 0) {
      row = ends.findIndex((end) => end <= from);
      if (row < 0) row = ends.length < MAX_LANES ? ends.length : MAX_LANES - 1;
      ends[row] = Math.max(ends[row] ?? 0, from + track.dur[i]);
    }
    (members[row] ??= []).push(i);
  });
  return members.map((of, row) => {
    const pick = (column) => of.map((i) => column[i]);
    const from = Float64Array.from(pick(starts));
    const end = from.map((value, i) => value + track.dur[of[i]]);
    let latest = 0;
    const lane = {
      label: printable(row ? `  overlapping` : track.label), trace: track.trace, start: from, end,
      endSoFar: end.map((value) => (latest = Math.max(latest, value))),
      isTile: Uint8Array.from(pick(track.name), (name) => (name < 0 ? 1 : 0)),
    };
    for (const column of ['kind', 'class', 'phase', 'name', 'module', 'event', 'path']) lane[column] = Int32Array.from(pick(track[column]));
    const tiles = new Map(track.tiles.map(([i, count, busy]) => [i, [count, busy]]));
    lane.count = of.map((i) => tiles.get(i)?.[0] ?? 1);
    lane.busy = of.map((i) => tiles.get(i)?.[1] ?? 0);
    lane.lastEnd = latest;
    return lane;
  });
}

function lowerBound(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

function abgr(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return (b << 16) | (g << 8) | r;
}
