// SPDX-License-Identifier: BSD-2-Clause
// routes.js - the overview: what is due next, and the table of all routes, unhealthy ones first.

import { get } from './api.js';
import { h, known, put, rate, span, sum, whole } from './dom.js';
import { aheadPicture } from './ahead.js';
import { due_text, is_bad, rank, show_health } from './health.js';
import { as_lines, WIDE_MS } from './history.js';
import { model, nextDue } from './model.js';
import { sparkline } from './chart.js';

const PAST_EACH_MS = 60000, PAST_LEAST = 3; // known values; with fewer a sparkline shows what this page saw

const link = (name) => '#/route/' + encodeURIComponent(name);

// by: the sort key.
const COLUMNS = [
  { label: 'Health', by: (k) => rank(k.data) },
  { label: 'Route', by: (k) => k.data.name },
  { label: 'In /s', by: (k) => k.rates.in },
  { label: 'Out /s', by: (k) => k.rates.out },
  { label: 'Pending', by: (k) => k.data.pending },
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
  const badge = h('span.state'), title = h('a.name'), way = h('span.way'), cause = h('p.cause');
  const spark = sparkline();
  state.append(badge);
  name.append(title, way, cause);
  trend.append(spark.element);

  // past: { times, pending } of the last hour, or undefined.
  function update(seen, past) {
    const r = seen.data;
    show_health(badge, r);
    put(cause, r.cause || '');
    cause.hidden = !r.cause;
    cause.classList.toggle('bad', is_bad(r));
    put(title, r.name);
    title.href = link(r.name);
    put(way, `${r.from.join(', ')} → ${r.to}`);
    put(arriving, rate(seen.rates.in), `${whole(r.received)} received by this instance`);
    put(leaving, rate(seen.rates.out), `${whole(r.delivered)} delivered by this instance`);
    put(waiting, known(r.pending), whole(r.pending));
    past ? spark.update(past.times, past.pending, Date.now(), WIDE_MS.hour)
      : spark.update(seen.history.times, seen.history.pending, Date.now());
    put(next, ...nextDue(r));
    const [due, is_alarm, due_title] = due_text(r);
    put(overdue, due, due_title);
    overdue.classList.toggle('alarm', is_alarm);
    put(flying, known(r.in_flight));
    put(dead, known(r.dead), whole(r.dead));
    [waiting, overdue, flying, dead, next].forEach((cell) => cell.classList.toggle('unknown', cell.textContent === 'unknown'));
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

// The last hour of every route, for the sparklines.
function pastOfAll() {
  let of = new Map(), asked_ms = 0;
  async function load() {
    asked_ms = Date.now();
    try {
      const answer = await get('/v1/admin/history', { span: 'hour' });
      const some = answer.routes.filter((r) => r.pending.filter((n) => n !== null).length >= PAST_LEAST);
      of = new Map(some.map((r) => [r.route, as_lines(answer, r)]));
    } catch {
      // a daemon without history: the sparklines show what this page saw
    }
  }
  return { of: (name) => of.get(name), update: () => Date.now() - asked_ms >= PAST_EACH_MS && load() };
}

export function routesView() {
  const rows = new Map(), past = pastOfAll(), ahead = aheadPicture('');
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
  const element = h('section.routes', null, h('header.head', null, h('h1', null, 'Routes'), total, field), ahead.element, table, empty);

  // First click: texts ascending, numbers descending. Second click: the reverse. Third click: unhealthy routes
  // first.
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
    past.update();
    ahead.update();
    const wanted = field.value.trim().toLowerCase();
    const shown = [...model.routes.values()].filter(({ data: r }) =>
      [r.name, r.to, ...r.from].some((text) => text.toLowerCase().includes(wanted)));
    const place = (seen) => (ranks ? ranks.get(seen.data.name) ?? ranks.size : rank(seen.data));
    shown.sort((a, b) => place(a) - place(b));
    const names = new Set(shown.map((seen) => seen.data.name));
    for (const [name, one] of rows) {
      if (!names.has(name)) {
        one.element.remove();
        rows.delete(name);
      }
    }
    shown.forEach((seen, i) => {
      const { name } = seen.data;
      const one = rows.get(name) || row();
      rows.set(name, one);
      one.update(seen, past.of(name));
      if (body.children[i] !== one.element) {
        body.insertBefore(one.element, body.children[i] || null);
      }
    });
    const per_second = (of) => rate(sum(shown.map((seen) => seen.rates[of])));
    put(total, model.routes.size ? `${shown.length === 1 ? '1 route' : `${shown.length} routes`} · ` +
      `${known(sum(shown.map((seen) => seen.data.pending)))} pending · ` +
      `${per_second('in')} in /s · ${per_second('out')} out /s` : '');
    table.hidden = !shown.length;
    empty.hidden = shown.length > 0;
    put(empty, model.routes.size ? 'No route matches.' : model.loaded ? 'No route is configured.' : 'Loading…');
  }
  return { element, update, leave: ahead.leave };
}
