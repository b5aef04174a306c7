// SPDX-License-Identifier: BSD-2-Clause
// model.js - what was last heard of the routes, and their figures over the last minutes.

import { get } from './api.js';
import { SPAN_MS } from './chart.js';

export const EACH_MS = 2000;
const SERIES = ['in', 'out', 'pending', 'overdue', 'p50', 'p99'];

export const model = {
  routes: new Map(), // name -> { now: as the daemon told it, history, rates }
  skew: 0,           // Redis' clock less ours
};

export const now = () => Date.now() + model.skew;

function per_second(route, name, before, seconds) {
  const more = route[name] - before[name];
  return seconds > 0 && more >= 0 ? more / seconds : null; // less: the daemon was started anew
}

function learn(told, at) {
  let known = model.routes.get(told.name);
  if (!known) {
    known = { history: { times: [] }, rates: { in: null, out: null }, told: null, at: 0 };
    SERIES.forEach((s) => (known.history[s] = []));
    model.routes.set(told.name, known);
  }
  if (known.told) {
    const seconds = (at - known.at) / 1000;
    known.rates = { in: per_second(told, 'received', known.told, seconds),
                    out: per_second(told, 'delivered', known.told, seconds) };
  }
  const { history } = known;
  const point = { in: known.rates.in, out: known.rates.out, pending: told.pending, overdue: told.overdue,
                  p50: told.lateness.p50_ms, p99: told.lateness.p99_ms };
  history.times.push(at);
  SERIES.forEach((s) => history[s].push(point[s]));
  while (history.times[0] < at - SPAN_MS) {
    history.times.shift();
    SERIES.forEach((s) => history[s].shift());
  }
  known.told = told;
  known.at = at;
}

// Asks for all routes, and keeps what was told.
export async function look(signal) {
  const answer = await get('/v1/admin/routes', null, signal);
  const at = Date.now();
  model.skew = answer.now_ms ? answer.now_ms - at : 0;
  const names = new Set(answer.routes.map((r) => r.name));
  [...model.routes.keys()].filter((name) => !names.has(name)).forEach((name) => model.routes.delete(name));
  answer.routes.forEach((told) => learn(told, at));
}
