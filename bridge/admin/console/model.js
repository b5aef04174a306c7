// SPDX-License-Identifier: BSD-2-Clause
// model.js - the latest data of the routes, and their values over the last minutes.

import { get } from './api.js';
import { span, utc } from './dom.js';
import { SPAN_MS } from './chart.js';

export const EACH_MS = 2000;
const SERIES = ['in', 'out', 'failed', 'pending', 'overdue', 'p50', 'p99'];

export const model = {
  routes: new Map(), // name -> { data: as the daemon returned it, at: ms, history, rates }
  loaded: false,
  skew: 0,           // clock of Redis minus ours, ms
};

export const now = () => Date.now() + model.skew;

// names: counters, which are added.
function per_second(route, names, before, seconds) {
  const more = names.reduce((all, name) => all + route[name] - before[name], 0);
  return seconds > 0 && more >= 0 ? more / seconds : null; // negative: the daemon was restarted
}

// point null: a gap.
function note(history, at, point) {
  history.times.push(at);
  SERIES.forEach((s) => history[s].push(point ? point[s] : null));
}

function unknown() {
  const series = SERIES.map((s) => [s, []]);
  return { history: { times: [], ...Object.fromEntries(series) }, rates: { in: null, out: null, failed: null }, data: null, at: 0 };
}

function update_route(data, at) {
  const known = model.routes.get(data.name) || unknown();
  if (known.data) {
    const seconds = (at - known.at) / 1000;
    known.rates = { in: per_second(data, ['received'], known.data, seconds),
                    out: per_second(data, ['delivered'], known.data, seconds),
                    failed: per_second(data, ['retried', 'dead_total'], known.data, seconds) };
  }
  const { history } = known;
  const point = { ...known.rates, pending: data.pending, overdue: data.overdue,
                  p50: data.lateness.p50_ms, p99: data.lateness.p99_ms };
  if (known.data && at - known.at > 3 * EACH_MS) { // the page was hidden, or requests failed
    note(history, at - 1, null);
  }
  note(history, at, point);
  while (history.times[0] < at - SPAN_MS) {
    history.times.shift();
    SERIES.forEach((s) => history[s].shift());
  }
  known.data = data;
  known.at = at;
  return known;
}

// Read all routes and store the response.
export async function refresh(signal) {
  const answer = await get('/v1/admin/routes', null, signal);
  const at = Date.now();
  model.loaded = true;
  model.skew = answer.now_ms ? answer.now_ms - at : 0;
  model.routes = new Map(answer.routes.map((data) => [data.name, update_route(data, at)]));
}

// Time until the first job of a route is due: the text shown, and the time as UTC.
export function nextDue(r) {
  if (r.next_due_ms === null) {
    return [r.pending === null ? 'unknown' : '–', ''];
  }
  if (r.state === 'paused' && r.next_due_ms < now()) {
    return ['paused', utc(r.next_due_ms)];
  }
  return [r.overdue ? (r.queue ? 'ready' : 'due') : span(Math.max(r.next_due_ms - now(), 0)), utc(r.next_due_ms)];
}
