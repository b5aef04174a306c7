// SPDX-License-Identifier: BSD-2-Clause
// targets.js - the targets of a route with their states, and the button that resumes a stopped target.

import { get, post, segment } from './api.js';
import { button, clock, fromNow, h, put, span, toast, whole } from './dom.js';
import { now } from './model.js';

const EACH_MS = 4000, MOST = 20;
const ORDER = ['stopped', 'resting', 'probing', 'flowing'];
const KINDS = { stopped: 'bad', resting: 'warning', probing: 'warning', flowing: 'running' };
const NOTES = {
  stopped: (t) => (t.stopped_ms ? `since ${clock(t.stopped_ms)} (${fromNow(t.stopped_ms, now())}); its jobs wait` : 'its jobs wait'),
  resting: (t) => `the circuit breaker is open; the next attempt is in ${span(t.wait_ms)}`,
  probing: () => 'the circuit breaker tries one job',
  flowing: () => '',
};
const rank = (t) => ORDER.indexOf(t.state);

// changed(): called when a target was resumed.
function row(name, changed) {
  const title = h('th.text', { scope: 'row' }), badge = h('span.state'), note = h('span.note');
  const numbers = [0, 1, 2].map(() => h('td.number.more'));
  const resume = button('Resume', async () => {
    try {
      await post(`/v1/routes/${segment(name)}/targets/go-on`, { target: title.textContent });
      toast(`${title.textContent}: deliveries resume.`);
      changed();
    } catch (e) {
      toast(e.message, true);
    }
  });
  function update(t) {
    put(title, t.target);
    badge.className = `state ${KINDS[t.state] || ''}`;
    put(badge, t.state);
    put(note, NOTES[t.state]?.(t) || '');
    [t.in_flight, t.delivered, t.failed].forEach((n, i) => put(numbers[i], whole(n)));
    resume.hidden = t.state !== 'stopped';
    resume.setAttribute('aria-label', `Resume ${t.target}`);
  }
  return { element: h('tr', null, title, h('td.text', null, badge, ' ', note), numbers, h('td.act', null, resume)), update };
}

// top: where the list is if a target is stopped or rests; bottom: where else.
export function targetList(name, top, bottom) {
  const rows = new Map(), body = h('tbody'), more = h('p.hint');
  const heads = [['Target', 'text'], ['State', 'text'], ['In flight', 'number.more'], ['Delivered', 'number.more'],
                 ['Failed', 'number.more']];
  const element = h('section.targets', { hidden: true }, h('h2', null, 'Targets'),
    h('div.scroll', null, h('table.list', null, h('thead', null, h('tr', null,
      heads.map(([label, kind]) => h('th.' + kind, { scope: 'col' }, label)), h('td.act'))), body)), more);
  let asked_ms = 0, asking = null;

  function draw(targets) {
    const sorted = targets.toSorted((a, b) => rank(a) - rank(b)).slice(0, MOST);
    element.hidden = !targets.length;
    const place = targets.some((t) => t.state !== 'flowing') ? top : bottom;
    if (element.parentNode !== place) {
      place.append(element);
    }
    put(more, targets.length > MOST ? `${whole(targets.length - MOST)} more: tarry targets ${name}` : '');
    const names = new Set(sorted.map((t) => t.target));
    for (const [target, one] of rows) {
      if (!names.has(target)) {
        one.element.remove();
        rows.delete(target);
      }
    }
    sorted.forEach((t, i) => {
      const one = rows.get(t.target) || row(name, load);
      rows.set(t.target, one);
      one.update(t);
      if (body.children[i] !== one.element) {
        body.insertBefore(one.element, body.children[i] || null);
      }
    });
  }

  async function load() {
    asking?.abort();
    const mine = asking = new AbortController();
    asked_ms = Date.now();
    try {
      draw((await get(`/v1/routes/${segment(name)}/targets`, null, mine.signal)).targets);
    } catch {
      // the header shows that the daemon does not respond; the next poll repeats it
    }
  }

  return { update: () => Date.now() - asked_ms >= EACH_MS && load(), leave: () => asking?.abort() };
}
