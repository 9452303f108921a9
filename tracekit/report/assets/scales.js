// Vega-Lite scales, which map values to pixels, and their ticks.

function linearTicks(from, to, count, least = 0) {
  const span = to - from || 1;
  const rough = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(power * ([1, 2, 5, 10].find((s) => s * power >= rough) ?? 10), least);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) ticks.push(i * step || 0);
  return ticks;
}

function logTicks(from, to) {
  const ticks = [];
  const first = Math.floor(Math.log10(from));
  const last = Math.ceil(Math.log10(to));
  const every = Math.max(1, Math.ceil((last - first) / 8));
  // Depends on the ratio, not on the powers of ten in the range: from 0.04 to 1.3, there would be only two ticks.
  const within = Math.log10(to / from) <= 2 ? [1, 2, 5] : [1];
  for (let e = first; e <= last; e += every) for (const part of within) ticks.push(part * 10 ** e);
  return ticks;
}

// Divisor of the axis labels, from the label expression.
function labelFactor(axis) {
  const found = /datum\.value \/ (\d+)/.exec(axis?.labelExpr ?? '');
  return found ? Number(found[1]) : 1;
}

function bandScale(domain, from, to) {
  const places = new Map(domain.map((value, i) => [String(value), i]));
  const step = (to - from) / Math.max(domain.length, 1);
  return {
    kind: 'band', domain, step,
    start: (value) => from + step * (places.get(String(value)) ?? NaN),
    centre: (value) => from + step * ((places.get(String(value)) ?? NaN) + 0.5),
  };
}

// Ticks of a vertical axis may be closer, because their labels are stacked.
const TICK_PX = { x: 90, y: 48 };

function numberScale(encoding, values, from, to, zoomed, channel) {
  const settings = encoding.scale ?? {};
  const numbers = values.filter((v) => typeof v === 'number' && Number.isFinite(v));
  const isLog = settings.type === 'log';
  const usable = isLog ? numbers.filter((v) => v > 0) : numbers;
  let low = usable.length ? usable.reduce((a, b) => Math.min(a, b)) : isLog ? 1 : 0;
  let high = usable.length ? usable.reduce((a, b) => Math.max(a, b)) : 1;
  if (settings.domain) [low, high] = settings.domain;
  else if (!isLog && settings.zero !== false) [low, high] = [Math.min(0, low), Math.max(0, high)];
  // Center a single step, because the axis would have zero length.
  if (settings.zero === false && encoding.axis?.tickMinStep && low === high) [low, high] = [low - 1, high + 1];
  if (zoomed) [low, high] = zoomed;
  const factor = labelFactor(encoding.axis);
  if (isLog) {
    // Padding, so that no mark is on the axis.
    [low, high] = [low / 1.3, high * 1.3];
    const [a, b] = [Math.log10(low), Math.log10(high)];
    const position = (v) => from + (to - from) * ((Math.log10(v) - a) / (b - a || 1));
    const ticks = logTicks(low / factor, high / factor).map((t) => t * factor);
    const inside = (all) => all.filter((t) => t >= low && t <= high);
    // Within one power of ten, use linear ticks.
    const found = inside(ticks).length > 2 ? ticks : linearTicks(low / factor, high / factor, 4).map((t) => t * factor);
    return { kind: 'log', domain: [low, high], factor, ticks: inside(found), position };
  }
  if (low === high) high = low + 1;
  const least = encoding.axis?.tickMinStep ?? 0;
  const count = Math.abs(to - from) / TICK_PX[channel];
  let ticks = linearTicks(low / factor, high / factor, count, least);
  if (!zoomed && settings.nice !== false && !settings.domain && ticks.length > 1) {
    const step = ticks[1] - ticks[0];
    high = Math.ceil(high / factor / step - 1e-9) * step * factor;
    if (settings.zero === false) low = Math.floor(low / factor / step + 1e-9) * step * factor;
    ticks = linearTicks(low / factor, high / factor, count, least);
  }
  const position = (v) => from + (to - from) * ((v - low) / (high - low));
  return { kind: 'linear', domain: [low, high], factor, ticks: ticks.map((t) => t * factor), position };
}

function tickText(scale, value) {
  return (value / scale.factor).toLocaleString('en', { maximumSignificantDigits: 6 });
}
