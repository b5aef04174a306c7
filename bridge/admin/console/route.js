// SPDX-License-Identifier: BSD-2-Clause
// route.js - one route: its health, what is due next, its history, targets, actions and jobs.

import { post, segment } from './api.js';
import { button, dialog, h, known, put, span, toast, whole } from './dom.js';
import { aheadPicture } from './ahead.js';
import { cause_box, failed_share, show_health } from './health.js';
import { figures } from './figures.js';
import { historyCharts } from './history.js';
import { model, nextDue } from './model.js';
import { deadList } from './dead.js';
import { jobList } from './jobs.js';
import { queueList } from './queues.js';
import { tabs } from './tabs.js';
import { tapPane } from './tap.js';
import { targetList } from './targets.js';

// The actions for the whole route.
const ACTIONS = {
  pause: { label: 'Pause', from: ['running', 'draining'],
           why: 'The route still accepts jobs, but delivers none until it is resumed. The pause applies to ' +
                'all instances and survives restarts.' },
  resume: { label: 'Resume', from: ['paused', 'draining'], why: null },
  drain: { label: 'Drain', from: ['running', 'paused'],
           why: 'The route rejects new jobs and delivers the stored ones.' },
};

// changed(): called when the state has changed.
function actions(name, changed) {
  const buttons = Object.entries(ACTIONS).map(([what, row]) => button(row.label, async () => {
    try {
      const path = `/v1/admin/routes/${segment(name)}/${what}`;
      const done = row.why
        ? await dialog(`${row.label} ${name}?`, h('p', null, row.why), row.label, () => post(path))
        : await post(path);
      if (done) {
        toast(`${name} is ${done.state}.`);
        Object.assign(model.routes.get(name).data, { state: done.state, health: undefined, cause: '' }); // until the next poll
        changed();
      }
    } catch (e) {
      toast(e.message, true);
    }
  }));
  return {
    element: h('span.actions', null, buttons),
    update: (r) => Object.values(ACTIONS).forEach((row, i) => {
      buttons[i].hidden = !row.from.includes(r.state);
    }),
  };
}

const since_start = (n) => [known(n), `${whole(n)} by this instance since its start`];

// Due jobs; in a queue they are ready for consumers.
const due = (r) => [known(r.overdue), whole(r.overdue),
                    r.overdue ? `${r.queue ? 'the oldest ' : ''}for ${span(r.oldest_overdue_ms)}` : ''];

// The values above the charts.
const FIGURES = [
  ['Pending', (r) => [known(r.pending), whole(r.pending),
                      r.counted_with ? `counted at ${r.counted_with}` : r.far ? `${known(r.far)} far` : '']],
  ['Next due', (r) => nextDue(r)],
  [(r) => (r.queue ? 'Ready' : 'Overdue'), due],
  ['In flight', (r) => [known(r.in_flight), whole(r.in_flight)]],
  ['Failed attempts', failed_share],
  ['Dead', (r) => [known(r.dead), whole(r.dead)]],
  ['Retried', (r) => since_start(r.retried)],
  ['Cancelled', (r) => since_start(r.cancelled)],
  ['Expired', (r) => since_start(r.expired)],
];

const tabsOf = (name, is_queue) => (is_queue
  ? tabs([['queues', 'Queues', () => queueList(name)], ['live', 'Live', () => tapPane(name)]])
  : tabs([['waiting', 'Pending', () => jobList(name, 'waiting')], ['in-flight', 'In flight', () => jobList(name, 'in-flight')],
          ['held', 'Held', () => jobList(name, 'held')], ['dead', 'Dead letters', () => deadList(name)],
          ['live', 'Live', () => tapPane(name)]]));

export function routeView(name) {
  const badge = h('span.state');
  const way = h('span.way');
  const control = actions(name, () => update());
  const values = figures(FIGURES);
  const top = h('div'), charts = h('div'), bottom = h('div'), rest = h('div');
  const cause = cause_box(), ahead = aheadPicture(name), targets = targetList(name, top, bottom);
  const body = h('div', { hidden: true }, cause.element, values.element, top, ahead.element, charts, bottom, rest);
  const none = h('p.empty');
  let jobs = null, history = null;
  const element = h('section.route', null,
    h('header.head', null, h('h1', null, h('a.back', { href: '#/', 'aria-label': 'All routes' }, '‹'), name), badge, way,
      control.element), none, body);

  function update() {
    const seen = model.routes.get(name);
    none.hidden = Boolean(seen);
    put(none, model.loaded ? `Unknown route ${name}.` : 'Loading…');
    body.hidden = !seen;
    control.element.hidden = !seen;
    if (!seen) {
      put(badge, '');
      put(way, '');
      return;
    }
    const r = seen.data;
    if (!jobs) {
      jobs = tabsOf(name, r.queue);
      rest.replaceChildren(jobs.element);
      history = historyCharts(name, r.queue);
      charts.replaceChildren(history.element);
    }
    show_health(badge, r);
    cause.update(r);
    put(way, `${r.from.join(', ')} → ${r.to}`);
    control.update(r);
    jobs.refresh();
    values.update(r);
    [ahead, targets].forEach((part) => part.update());
    history.update(seen.history);
  }
  return { element, update, leave: () => [jobs, history, ahead, targets].forEach((part) => part?.leave()) };
}
