// Fills the page: charts and tables are drawn when they scroll into view, or soon after loading, so that text search,
// screenshots, and printing include them.

const PAGE = JSON.parse(document.getElementById('page-data').textContent);

// With a single device, tables omit its columns.
const OF_ONE = PAGE.data.timeline?.rows.length === 1 ? ['rank', 'device'] : [];

function rowsOf(name) {
  const { columns, rows } = PAGE.data[name];
  return rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]])));
}

function fill(place) {
  if (place.dataset.filled) return;
  place.dataset.filled = 'yes';
  if (place.dataset.chart) {
    const chart = PAGE.charts[place.dataset.chart];
    place.chart = new ChartView(place, chart, rowsOf);
  } else if (place.dataset.rows) {
    const draw = place.dataset.rows === 'pivot_cells' ? drawPivot : drawTable;
    draw(place, place.dataset.rows, PAGE.data[place.dataset.rows]);
  }
  else if (place.id === 'events-view') openTimeline(place);
}

const places = document.querySelectorAll('[data-chart], [data-rows], #events-view');
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    fill(target);
  }
}, { rootMargin: '600px' });
places.forEach((place) => watcher.observe(place));

// One at a time, so that the page stays responsive; the timeline takes longest. A chart in a hidden tab has no width yet.
const waiting = [...places].sort((a, b) => (a.id === 'events-view') - (b.id === 'events-view'));
function fillNext() {
  const place = waiting.shift();
  if (!place) return;
  if (place.dataset.rows || place.offsetParent) fill(place);
  setTimeout(fillNext);
}
setTimeout(fillNext);

// Paper is white, and has no scrolling or tabs.
const MIN_PAPER_PX = 700;
let themeBefore;
addEventListener('beforeprint', () => {
  const { dataset, classList } = document.documentElement;
  themeBefore = dataset.theme;
  dataset.theme = 'light';
  dispatchEvent(new Event('themechange'));
  classList.add('printing');
  places.forEach((place) => {
    fill(place);
    place.chart?.draw();
  });
  document.querySelectorAll('.scroll > table').forEach((table) => {
    const room = Math.max(table.parentElement.clientWidth, MIN_PAPER_PX);
    table.style.zoom = Math.min(1, room / table.scrollWidth);
  });
});
addEventListener('afterprint', () => {
  if (themeBefore) document.documentElement.dataset.theme = themeBefore;
  else delete document.documentElement.dataset.theme;
  document.documentElement.classList.remove('printing');
  document.querySelectorAll('.scroll > table').forEach(fitTable);
  dispatchEvent(new Event('themechange'));
});

document.querySelectorAll('button[data-copy]').forEach((button) => {
  button.addEventListener('click', () => copy(document.getElementById(button.dataset.copy).textContent, button));
});

// Tabs: a section shows one of several charts.
document.querySelectorAll('[role=tablist]').forEach((list) => {
  const tabs = [...list.querySelectorAll('[role=tab]')];
  const panel = (tab) => document.getElementById(tab.getAttribute('aria-controls'));
  const choose = (tab) => {
    for (const other of tabs) {
      other.setAttribute('aria-selected', other === tab);
      other.tabIndex = other === tab ? 0 : -1;
      panel(other).hidden = other !== tab;
    }
    panel(tab).querySelectorAll('[data-chart]').forEach(fill);
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener('click', () => choose(tab));
    tab.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
});

const theme = document.getElementById('theme');
theme.addEventListener('click', () => {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = isDark ? 'light' : 'dark';
  dispatchEvent(new Event('themechange'));
});
document.documentElement.dataset.ready = 'yes';
