// SPDX-License-Identifier: BSD-2-Clause
// routes.js - the table of all routes.

import { count, h, put, rate, span, whole } from './dom.js';
import { model, nextDue } from './model.js';
import { sparkline } from './chart.js';

const link = (name) => '#/route/' + encodeURIComponent(name);

// by: the sort key.
const COLUMNS = [
  { label: 'State', by: (k) => k.data.state },
  { label: 'Route', by: (k) => k.data.name },
  { label: 'In /s', by: (k) => k.rates.in },
  { label: 'Out /s', by: (k) => k.rates.out },
  { label: 'Waiting', by: (k) => k.data.pending },
  { label: 'Trend' },
  { label: 'Next due', by: (k) => k.data.next_due_ms },
  { label: 'Overdue', by: (k) => k.data.oldest_overdue_ms },
  { label: 'In flight', by: (k) => k.data.in_flight },
  { label: 'Dead', by: (k) => k.data.dead },
  { label: 'Late p50 / p99', by: (k) => k.data.lateness.p99_ms },
];

function row() {
  const cells = COLUMNS.map((_, i) => h((i === 1 ? 'th.c' : 'td.c') + i, i === 1 ? { scope: 'row' } : null));
  const [state, name, arriving, leaving, waiting, trend, next, overdue, flying, dead, late] = cells;
  cells.forEach((cell, i) => (cell.dataset.label = COLUMNS[i].label));
  const badge = h('span.state'), title = h('a.name'), way = h('span.way');
  const spark = sparkline();
  state.append(badge);
  name.append(title, way);
  trend.append(spark.element);

  function update(known) {
    const r = known.data;
    badge.className = 'state ' + r.state;
    put(badge, r.state);
    put(title, r.name);
    title.href = link(r.name);
    put(way, `${r.from.join(', ')} → ${r.to}`);
    put(arriving, rate(known.rates.in), `${whole(r.received)} received by this instance`);
    put(leaving, rate(known.rates.out), `${whole(r.delivered)} delivered by this instance`);
    put(waiting, count(r.pending), whole(r.pending));
    spark.update(known.history.times, known.history.pending, Date.now());
    put(next, ...nextDue(r));
    put(overdue, r.overdue ? `${count(r.overdue)} · ${span(r.oldest_overdue_ms)}` : r.overdue === 0 ? '0' : '–',
      r.overdue ? `${whole(r.overdue)} jobs, the oldest for ${span(r.oldest_overdue_ms)}` : '');
    overdue.classList.toggle('alarm', r.oldest_overdue_ms > 10000 && r.state === 'running');
    put(flying, count(r.in_flight));
    put(dead, count(r.dead), whole(r.dead));
    dead.classList.toggle('warn', r.dead > 0);
    put(late, r.lateness.p50_ms === null ? '–' : `${span(r.lateness.p50_ms)} / ${span(r.lateness.p99_ms)}`);
  }
  return { element: h('tr', null, cells), update };
}

// Unknown values are last in both directions.
function compare(a, b, down) {
  if (a === null || b === null) {
    return (a === null) - (b === null);
  }
  return (typeof a === 'string' ? a.localeCompare(b) : a - b) * (down ? -1 : 1);
}

export function routesView() {
  const rows = new Map();
  const body = h('tbody');
  const empty = h('p.empty');
  const field = h('input', { type: 'search', placeholder: 'Filter routes   /', 'aria-label': 'Filter routes',
                             oninput: () => update(), onkeydown: (event) => {
                               if (event.key === 'Enter') { // open the first route
                                 body.querySelector('a')?.click();
                               }
                             } });
  const total = h('p.total');
  let sorted = null, ranks = null; // ranks: order at the time of the click; rows that move cannot be read
  const heads = COLUMNS.map(({ label, by }, i) => h('th.c' + i, { scope: 'col' },
    by ? h('button.sort', { type: 'button', onclick: () => sort(i) }, label) : label));
  const table = h('div.scroll', null, h('table.list', null, h('thead', null, h('tr', null, heads)), body));
  const element = h('section.routes', null, h('header.head', null, h('h1', null, 'Routes'), total, field), table, empty);

  // First click: texts ascending, numbers descending. Second click: the reverse. Third click: the order of the
  // configuration.
  function sort(i) {
    const { by } = COLUMNS[i], first = i > 1;
    sorted = sorted?.i !== i ? { i, down: first } : sorted.down === first ? { i, down: !first } : null;
    heads.forEach((head, k) => (sorted?.i === k
      ? head.setAttribute('aria-sort', sorted.down ? 'descending' : 'ascending') : head.removeAttribute('aria-sort')));
    const order = [...model.routes.values()];
    ranks = sorted && new Map(order.sort((a, b) => compare(by(a), by(b), sorted.down)).map((k, rank) => [k.data.name, rank]));
    update();
  }

  function update() {
    const wanted = field.value.trim().toLowerCase();
    const shown = [...model.routes.values()].filter(({ data: r }) =>
      [r.name, r.to, ...r.from].some((text) => text.toLowerCase().includes(wanted)));
    const rank = (known) => ranks.get(known.data.name) ?? ranks.size;
    if (ranks) {
      shown.sort((a, b) => rank(a) - rank(b));
    }
    const names = new Set(shown.map((known) => known.data.name));
    for (const [name, one] of rows) {
      if (!names.has(name)) {
        one.element.remove();
        rows.delete(name);
      }
    }
    shown.forEach((known, i) => {
      const { name } = known.data;
      const one = rows.get(name) || row();
      rows.set(name, one);
      one.update(known);
      if (body.children[i] !== one.element) {
        body.insertBefore(one.element, body.children[i] || null);
      }
    });
    const sum = (of) => shown.reduce((all, known) => all + (of(known) || 0), 0);
    put(total, model.routes.size ? `${shown.length === 1 ? '1 route' : `${shown.length} routes`} · ` +
      `${count(sum((k) => k.data.pending))} pending · ` +
      `${rate(sum((k) => k.rates.in))} in /s · ${rate(sum((k) => k.rates.out))} out /s` : '');
    table.hidden = !shown.length;
    empty.hidden = shown.length > 0;
    put(empty, model.routes.size ? 'No route matches.' : model.loaded ? 'No route is configured.' : 'Loading…');
  }
  return { element, update };
}
