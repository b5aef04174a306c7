// SPDX-License-Identifier: BSD-2-Clause
// routes.js - all routes at a glance.

import { count, fromNow, h, put, rate, span, utc, whole } from './dom.js';
import { model, now } from './model.js';
import { sparkline } from './chart.js';

export const link = (name) => '#/route/' + encodeURIComponent(name);

const COLUMNS = ['State', 'Route', 'In /s', 'Out /s', 'Waiting', '', 'Next due', 'Overdue', 'In flight', 'Dead',
                 'Late p50 / p99'];

function row() {
  const cells = COLUMNS.map((_, i) => h(i === 1 ? 'th' : 'td.c' + i, i === 1 ? { scope: 'row' } : null));
  const [state, name, arriving, leaving, waiting, trend, next, overdue, flying, dead, late] = cells;
  cells.forEach((cell, i) => (cell.dataset.label = COLUMNS[i]));
  const badge = h('span.state'), title = h('a.name'), way = h('span.way');
  const spark = sparkline();
  state.append(badge);
  name.append(title, way);
  trend.append(spark.element);

  function update(known) {
    const r = known.told, at = now();
    badge.className = 'state ' + r.state;
    put(badge, r.state);
    put(title, r.name);
    title.href = link(r.name);
    put(way, `${r.from.join(', ')} → ${r.to}`);
    put(arriving, rate(known.rates.in), `${whole(r.received)} received by this instance`);
    put(leaving, rate(known.rates.out), `${whole(r.delivered)} delivered by this instance`);
    put(waiting, count(r.pending), whole(r.pending));
    spark.update(known.history.times, known.history.pending, Date.now());
    put(next, r.next_due_ms === null ? '–' : r.overdue ? 'due' : fromNow(r.next_due_ms, at),
      r.next_due_ms === null ? '' : utc(r.next_due_ms));
    put(overdue, r.overdue ? `${count(r.overdue)} · ${span(r.oldest_overdue_ms)}` : r.overdue === 0 ? '0' : '–',
      r.overdue ? `${whole(r.overdue)} jobs, the first for ${span(r.oldest_overdue_ms)}` : '');
    overdue.classList.toggle('alarm', r.oldest_overdue_ms > 10000 && r.state === 'running');
    put(flying, count(r.in_flight));
    put(dead, count(r.dead), whole(r.dead));
    dead.classList.toggle('warn', r.dead > 0);
    put(late, r.lateness.p50_ms === null ? '–' : `${span(r.lateness.p50_ms)} / ${span(r.lateness.p99_ms)}`);
  }
  return { element: h('tr', null, cells), update };
}

export function routesView() {
  const rows = new Map();
  const body = h('tbody');
  const empty = h('p.empty', null, 'No route is configured.');
  const field = h('input', { type: 'search', placeholder: 'Filter routes   /', 'aria-label': 'Filter routes',
                             oninput: () => update() });
  const total = h('p.total');
  const element = h('section.routes', null, h('header.head', null, h('h1', null, 'Routes'), total, field),
    h('div.scroll', null, h('table.list', null, h('thead', null, h('tr', null, COLUMNS.map((c, i) =>
      h('th.c' + i, { scope: 'col' }, c)))), body)), empty);

  function update() {
    const wanted = field.value.trim().toLowerCase();
    const shown = [...model.routes.values()].filter(({ told: r }) =>
      [r.name, r.to, ...r.from].some((text) => text.toLowerCase().includes(wanted)));
    const names = new Set(shown.map((known) => known.told.name));
    for (const [name, one] of rows) {
      if (!names.has(name)) {
        one.element.remove();
        rows.delete(name);
      }
    }
    shown.forEach((known, i) => {
      const { name } = known.told;
      const one = rows.get(name) || row();
      rows.set(name, one);
      one.update(known);
      if (body.children[i] !== one.element) {
        body.insertBefore(one.element, body.children[i] || null);
      }
    });
    const sum = (of) => shown.reduce((all, known) => all + (of(known) || 0), 0);
    put(total, model.routes.size ? `${shown.length} routes · ${count(sum((k) => k.told.pending))} waiting · ` +
      `${rate(sum((k) => k.rates.in))} in /s · ${rate(sum((k) => k.rates.out))} out /s` : '');
    empty.hidden = shown.length > 0;
    put(empty, model.routes.size ? 'No route matches.' : 'No route is known yet.');
  }
  return { element, update };
}
