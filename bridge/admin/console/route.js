// SPDX-License-Identifier: BSD-2-Clause
// route.js - one route: its charts, actions and jobs.

import { post, segment } from './api.js';
import { button, count, dialog, h, put, rate, span, toast, whole } from './dom.js';
import { model, nextDue } from './model.js';
import { chart, round_ms } from './chart.js';
import { deadList } from './dead.js';
import { jobList } from './jobs.js';

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
        model.routes.get(name).data.state = done.state;
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

function figure(label) {
  const value = h('dd'), more = h('dd.note');
  const element = h('div.figure', null, h('dt', null, label), value, more);
  return { element, update: (text, title, note) => {
    put(value, text, title || '');
    put(more, note || '');
  } };
}

const since_start = (n) => [count(n), `${whole(n)} by this instance since its start`];

// The values above the charts: label, and its [text, title, note].
const FIGURES = [
  ['Waiting', (r) => [count(r.pending), whole(r.pending),
                      r.counted_with ? `counted at ${r.counted_with}` : r.far ? `${count(r.far)} far` : '']],
  ['Next due', (r) => nextDue(r)],
  ['Overdue', (r) => [count(r.overdue), whole(r.overdue), r.overdue ? `for ${span(r.oldest_overdue_ms)}` : '']],
  ['In flight', (r) => [count(r.in_flight), whole(r.in_flight)]],
  ['Dead', (r) => [count(r.dead), whole(r.dead)]],
  ['Retried', (r) => since_start(r.retried)],
  ['Cancelled', (r) => since_start(r.cancelled)],
  ['Expired', (r) => since_start(r.expired)],
];

function tabs(name, isQueue) {
  const panel = h('div.panel', { role: 'tabpanel', id: 'panel', tabindex: '-1' });
  const made = [['waiting', 'Waiting', () => jobList(name, 'waiting', isQueue)],
                ['in-flight', 'In flight', () => jobList(name, 'in-flight', isQueue)],
                ...(isQueue ? [] : [['held', 'Held', () => jobList(name, 'held', false)],
                                    ['dead', 'Dead letters', () => deadList(name)]])];
  let shown = null;
  const buttons = made.map(([what, label, make], i) => h('button', {
    type: 'button', role: 'tab', id: 'tab-' + what, 'aria-controls': 'panel', onclick: () => open(i),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) {
        const next = (i + step + made.length) % made.length;
        open(next);
        buttons[next].focus();
      }
    },
  }, label));
  function open(i) {
    shown?.leave();
    buttons.forEach((b, k) => {
      b.setAttribute('aria-selected', k === i);
      b.tabIndex = k === i ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', buttons[i].id);
    shown = made[i][2]();
    panel.replaceChildren(shown.element);
  }
  open(0);
  return { element: h('section.jobs', null, h('div.tabs', { role: 'tablist' }, buttons), panel),
           refresh: () => shown.refresh(), leave: () => shown.leave() };
}

export function routeView(name) {
  const badge = h('span.state');
  const way = h('span.way');
  const control = actions(name, () => update());
  const figures = FIGURES.map(([label]) => figure(label));
  const charts = [
    chart('Jobs per second', [{ key: 'in', label: 'in' }, { key: 'out', label: 'out' }], rate, 1),
    chart('Backlog', [{ key: 'pending', label: 'pending', area: true }, { key: 'overdue', label: 'overdue' }], count, 10),
    chart('Lateness', [{ key: 'p50', label: 'p50' }, { key: 'p99', label: 'p99' }], span, 10, round_ms),
  ];
  const rest = h('div');
  const body = h('div', { hidden: true }, h('dl.figures', null, figures.map((f) => f.element)),
    h('div.charts', null, charts.map((c) => c.element)), rest);
  const none = h('p.empty');
  let jobs = null;
  const element = h('section.route', null,
    h('header.head', null, h('h1', null, h('a.back', { href: '#/', 'aria-label': 'All routes' }, '‹'), name), badge, way,
      control.element), none, body);

  function update() {
    const known = model.routes.get(name);
    none.hidden = Boolean(known);
    put(none, model.loaded ? `Unknown route ${name}.` : 'Loading…');
    body.hidden = !known;
    control.element.hidden = !known;
    if (!known) {
      put(badge, '');
      put(way, '');
      return;
    }
    const r = known.data;
    if (!jobs) {
      jobs = tabs(name, r.queue);
      rest.replaceChildren(jobs.element);
    }
    badge.className = 'state ' + r.state;
    put(badge, r.state);
    put(way, `${r.from.join(', ')} → ${r.to}`);
    control.update(r);
    jobs.refresh();
    FIGURES.forEach(([, show], i) => figures[i].update(...show(r)));
    charts.forEach((c) => c.update(known.history, Date.now()));
  }
  return { element, update, leave: () => jobs?.leave() };
}
