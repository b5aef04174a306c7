// SPDX-License-Identifier: BSD-2-Clause
// history.js - the charts of a route: the last hour or day, which the daemon keeps, or the last minutes as this
// page saw them.

import { get } from './api.js';
import { choice, clock, count, h, put, rate, span } from './dom.js';
import { chart, round_ms, SPAN_MS } from './chart.js';
import { model } from './model.js';

const EACH_MS = 10000;
const SPANS = [['live', 'Live'], ['hour', 'Hour'], ['day', 'Day']];
export const WIDE_MS = { hour: 36e5, day: 864e5 };
let chosen = 'hour'; // on all pages, until the tab is closed

const per_second = (numbers, step_ms) => numbers.map((n) => (n === null ? null : (n * 1000) / step_ms));

// By the clock of this page, as its own points.
const here = (ms) => ms - model.skew;

// One route of the response, as chart.js wants it.
export function as_lines(answer, r) {
  return { times: r.pending.map((_, i) => here(answer.from_ms + (i + 1) * answer.step_ms)),
           in: per_second(r.in, answer.step_ms), out: per_second(r.out, answer.step_ms),
           failed: per_second(r.failures, answer.step_ms), pending: r.pending,
           overdue: r.pending.map(() => null), p50: r.lateness_p50_ms, p99: r.lateness_p99_ms };
}

// Without the time before the first known value, so that the lines of a young daemon can be seen.
function trimmed(lines) {
  const first = lines.pending.findIndex((n) => n !== null);
  return first <= 0 ? lines : Object.fromEntries(Object.entries(lines).map(([key, values]) => [key, values.slice(first)]));
}

// What happened, the latest first.
function eventList() {
  const list = h('ul');
  const element = h('details.events', { hidden: true }, h('summary'), list);
  function update(marks) {
    element.hidden = !marks.length;
    put(element.firstChild, marks.length === 1 ? '1 event' : `${marks.length} events`);
    if (list.children.length !== marks.length) { // marks are only added
      list.replaceChildren(...marks.toReversed().map((m) => h('li', null, h('b', null, clock(m.at_ms)), ` ${m.text}`)));
    }
  }
  return { element, update };
}

// is_queue: due jobs are ready for consumers, not overdue.
export function historyCharts(name, is_queue) {
  const charts = [
    chart('Jobs per second', [{ key: 'in', label: 'in' }, { key: 'out', label: 'out' }, { key: 'failed', label: 'failed' }],
      rate, 1),
    chart('Backlog', [{ key: 'pending', label: 'pending', area: true },
                      { key: 'overdue', label: is_queue ? 'ready' : 'overdue' }], count, 10),
    chart('Lateness', [{ key: 'p50', label: 'p50' }, { key: 'p99', label: 'p99' }], span, 10, round_ms),
  ];
  const events = eventList();
  const spans = choice('Time shown', SPANS, chosen, (what) => {
    chosen = what;
    asked_ms = 0;
    update();
  });
  const head = h('div.above', { hidden: true }, h('h2', null, 'History'), spans.element);
  const element = h('section.history', null, head, h('div.charts', null, charts.map((c) => c.element)), events.element);
  let past = null, absent = false, asked_ms = 0, asking = null, live = null;

  // The past, and behind it what this page has seen since its last step.
  function joined() {
    const first = live ? live.times.findIndex((t) => t > past.lines.times.at(-1)) : -1;
    return first < 0 ? past.lines
      : Object.fromEntries(Object.keys(past.lines).map((key) => [key, [...past.lines[key], ...live[key].slice(first)]]));
  }

  function draw() {
    if (past?.span === chosen) {
      const lines = chosen === 'hour' ? trimmed(joined()) : joined();
      const wide = chosen === 'hour' && Date.now() - lines.times[0] <= SPAN_MS ? null : WIDE_MS[chosen];
      charts.forEach((c) => c.update(lines, Date.now(), { wide, marks: past.marks }));
      events.update(past.marks);
    } else if (live && (chosen === 'live' || absent)) {
      charts.forEach((c) => c.update(live, Date.now(), { marks: past?.marks || [] }));
      events.update(past?.marks || []);
    }
  }

  async function load() {
    asking?.abort();
    const mine = asking = new AbortController(), wanted = chosen === 'live' ? 'hour' : chosen;
    asked_ms = Date.now();
    try {
      const answer = await get('/v1/admin/history', { span: wanted, route: name }, mine.signal);
      const marks = answer.marks.map((m) => ({ at_ms: here(m.at_ms), text: `${m.kind}: ${m.text}` }));
      past = { span: wanted, lines: as_lines(answer, answer.routes[0]), marks };
      head.hidden = absent = false;
      draw();
    } catch (e) {
      absent = !past && e.name !== 'AbortError'; // a daemon without history: show what this page saw
    }
  }

  function update(seen) {
    live = seen || live;
    if (Date.now() - asked_ms >= EACH_MS) {
      load();
    }
    draw();
  }
  return { element, update, leave: () => asking?.abort() };
}
