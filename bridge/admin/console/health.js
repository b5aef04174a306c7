// SPDX-License-Identifier: BSD-2-Clause
// health.js - the health of a route: one word, its cause, and the failures of the last minutes.

import { clock, fromNow, h, known, put, span, whole } from './dom.js';
import { now } from './model.js';

// Worst first. The operator decided on paused and draining.
const ORDER = ['held', 'stopped', 'failing', 'behind', 'resting', 'paused', 'draining', 'healthy'];
const WORDS = { held: 'held back' };
// The colour of each word.
const KINDS = { stopped: 'bad', failing: 'bad', behind: 'bad', held: 'bad', resting: 'warning', paused: 'warning',
                draining: 'draining', healthy: 'running', running: 'running' };

// A daemon that does not report health reports the state only.
const word_of = (r) => r.health || r.state;
export const rank = (r) => {
  const at = ORDER.indexOf(word_of(r));
  return at < 0 ? ORDER.length : at;
};
export const is_unhealthy = (r) => Boolean(r.health) && r.health !== 'healthy';
export const is_bad = (r) => KINDS[word_of(r)] === 'bad';

// Due jobs that are not delivered: [text, is an alarm, title]. In a queue they are ready for consumers.
export function due_text(r) {
  if (r.overdue === null) {
    return ['unknown', false, ''];
  } else if (r.queue) {
    return [r.overdue ? `${known(r.overdue)} ready` : '–', false, `${whole(r.overdue)} jobs are ready for consumers`];
  }
  return r.overdue ? [`${known(r.overdue)} · ${span(r.oldest_overdue_ms)}`, r.oldest_overdue_ms > 10000,
                      `${whole(r.overdue)} jobs, the oldest for ${span(r.oldest_overdue_ms)}`] : ['0', false, ''];
}

export function show_health(badge, r) {
  const word = word_of(r);
  badge.className = `state ${word} ${KINDS[word] || ''}`;
  put(badge, WORDS[word] || word);
}

export const count_unhealthy = (routes) => routes.filter(is_unhealthy).length;

// "98 %", "1,180 of 1,204 in 5 m"; null: queues have no attempts.
export function failed_share(r) {
  const f = r.failures;
  if (!f || r.queue) {
    return null;
  }
  const note = `${whole(f.failed)} of ${whole(f.attempts)} in ${span(f.window_s * 1000)}`;
  return [f.attempts ? `${Math.round((100 * f.failed) / f.attempts)} %` : '–', `attempts of this instance: ${note}`, note];
}

const ms_of = (at) => (typeof at === 'number' ? at : Date.parse(at));

// "Last error: HTTP 500, from https://shop.example, 12:30:05 (4.0 s ago)"; without what the cause says already
function last_error(r) {
  const last = r.failures?.last;
  if (!last) {
    return '';
  }
  const at = ms_of(last.at), error = last.error || (last.status ? `HTTP ${last.status}` : 'no reason given');
  return ['Last error: ' + (r.cause?.includes(error) ? '' : `${error}, `) + (last.target ? `from ${last.target}` : ''),
          `${clock(at).slice(11)} (${fromNow(at, now())})`].join(', ').replace(': , ', ': ');
}

// The cause and the last error, for the head of the route's page.
export function cause_box() {
  const cause = h('p'), error = h('p.error');
  const element = h('div.cause', { hidden: true }, cause, error);
  function update(r) {
    const last = last_error(r);
    element.hidden = !r.cause && !last;
    element.className = `cause ${r.cause ? KINDS[word_of(r)] || '' : ''}`;
    put(cause, r.cause || '');
    put(error, last);
  }
  return { element, update };
}
