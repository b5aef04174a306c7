// SPDX-License-Identifier: BSD-2-Clause
// queues.js - the queues of a route, and the page of one queue.

import { get, segment } from './api.js';
import { bulkDead, bulkJobs } from './bulk.js';
import { button, fromNow, h, known, put, span, whole } from './dom.js';
import { deadList } from './dead.js';
import { figures } from './figures.js';
import { jobList } from './jobs.js';
import { now } from './model.js';
import { tabs } from './tabs.js';

const EACH_MS = 4000, MOST = 200;

const link = (name, queue) => `#/queue/${encodeURIComponent(name)}/${encodeURIComponent(queue)}`;
const oldest = (q) => (q.oldest_ready_ms ? span(Math.max(0, now() - q.oldest_ready_ms)) : '');

// --- the list ---

const COLUMNS = [['Ready', (q) => known(q.ready)], ['Oldest ready', (q) => oldest(q) || '–'], ['Delayed', (q) => known(q.delayed)],
                 ['In flight', (q) => known(q.in_flight)], ['Dead', (q) => known(q.dead)],
                 ['Consumers', (q) => known(q.consumers)], ['Last job', (q) => fromNow(q.used_ms, now())]];

export function queueList(name) {
  const body = h('tbody'), said = h('p.said', { role: 'status' }, 'Looking…');
  const field = h('input', { type: 'search', spellcheck: 'false', autocomplete: 'off', oninput: () => draw() });
  const table = h('div.scroll', { hidden: true }, h('table.list', null, h('thead', null, h('tr', null, h('th.text', { scope: 'col' }, 'Queue'),
    COLUMNS.map(([label]) => h('th.number', { scope: 'col' }, label)))), body));
  const element = h('div.queues', null, h('form.filters', { onsubmit: (event) => event.preventDefault() },
    h('label', null, h('span', null, 'Name contains'), field)), table, h('footer.pager', null, said));
  let queues = [], asked_ms = 0;

  function draw() {
    const wanted = field.value.trim().toLowerCase(), shown = queues.filter((q) => q.name.toLowerCase().includes(wanted));
    const lines = new Map([...body.children].map((line) => [line.dataset.name, line]));
    body.replaceChildren(...shown.map((q) => {
      const line = lines.get(q.name) || h('tr', { 'data-name': q.name }, h('th.text', { scope: 'row' },
        h('a', { href: link(name, q.name) }, q.name)), COLUMNS.map(([label]) => h('td.number', { 'data-label': label })));
      COLUMNS.forEach(([, text], i) => put(line.children[i + 1], text(q)));
      return line;
    }));
    table.hidden = !shown.length;
    put(said, !queues.length ? 'There are no queues. The first job creates a queue.'
      : `${whole(shown.length)} shown` + (queues.length === MOST ? `, the ${MOST} used last` : ''));
  }

  async function load() {
    asked_ms = Date.now();
    try {
      ({ queues } = await get(`/v1/admin/routes/${segment(name)}/queues`, { counts: true, max: MOST }));
      draw();
    } catch (e) {
      put(said, e.message);
    }
  }
  load();
  return { element, refresh: () => Date.now() - asked_ms >= EACH_MS && load() };
}

// --- one queue ---

const FIGURES = [
  ['Ready', (q) => [known(q.ready), whole(q.ready), oldest(q) && `the oldest for ${oldest(q)}`]],
  ['Delayed', (q) => [known(q.delayed), whole(q.delayed), q.far ? `${known(q.far)} far` : '']],
  ['In flight', (q) => [known(q.in_flight), whole(q.in_flight)]],
  ['Dead', (q) => [known(q.dead), whole(q.dead)]],
  ['Consumers', (q) => [known(q.consumers), whole(q.consumers), 'waiting at this instance']],
];

export function queueView(path) {
  const cut = path.indexOf('/'), name = path.slice(0, cut), queue = path.slice(cut + 1);
  const values = figures(FIGURES);
  const jobs = tabs([['ready', 'Ready', () => jobList(name, 'ready', queue)], ['delayed', 'Delayed', () => jobList(name, 'delayed', queue)],
                     ['in-flight', 'In flight', () => jobList(name, 'in-flight', queue)],
                     ['dead', 'Dead', () => deadList(name, queue)]]);
  const purge = button('Purge…', () => bulkJobs(name, 'purge', { queue, all: true }, '', load), 'danger');
  const purge_dead = button('Purge dead letters…', () => bulkDead(name, 'drop', { queue }, '', load), 'danger');
  const fault = h('p.fault', { role: 'status' });
  const element = h('section.queue', null, h('header.head', null,
    h('h1', null, h('a.back', { href: '#/route/' + encodeURIComponent(name), 'aria-label': `The route ${name}` }, '‹'), queue),
    h('span.way', null, `queue of the route ${name}`), h('span.actions', null, purge, purge_dead)), fault,
    values.element, jobs.element);
  let asked_ms = 0;

  async function load() {
    asked_ms = Date.now();
    try {
      const q = await get(`/v1/admin/routes/${segment(name)}/queues/${segment(queue)}`);
      values.update(q);
      jobs.count([q.ready, q.delayed, q.in_flight, q.dead].map(known));
      purge_dead.hidden = !q.dead;
      put(fault, '');
    } catch (e) {
      put(fault, e.message);
    }
  }

  function update() {
    if (Date.now() - asked_ms >= EACH_MS) {
      load();
    }
    jobs.refresh();
  }
  return { element, update, leave: jobs.leave };
}
