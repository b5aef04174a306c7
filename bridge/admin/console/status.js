// SPDX-License-Identifier: BSD-2-Clause
// status.js - the daemon: its configuration, what it is connected to, and the others beside it.

import { ApiError, post } from './api.js';
import { button, clock, count, h, put, span, toast, whole } from './dom.js';
import { now } from './model.js';
import { facts } from './pages.js';

function table(columns, rows) {
  return h('div.scroll', null, h('table.list.plain', null,
    h('thead', null, h('tr', null, columns.map((c) => h('th', { scope: 'col' }, c)))),
    h('tbody', null, rows.map((cells) => h('tr', null, cells.map((cell, i) =>
      (i ? h('td', null, cell) : h('th', { scope: 'row' }, cell))))))));
}

const state = (good, text) => h('span.state.' + (good ? 'running' : 'bad'), null, text);

export function statusView() {
  const daemon = h('div'), config = h('div'), redis = h('div'), instances = h('div'), sources = h('div');
  const sinks = h('div'), outcome = h('pre', { hidden: true, tabindex: '0', role: 'status' });
  let shown = '';
  const reload = button('Reload configuration', async () => {
    outcome.hidden = false;
    put(outcome, 'Reading…');
    try {
      const done = await post('/v1/admin/reload');
      put(outcome, done.changed.length ? `Generation ${done.generation}:\n${done.changed.join('\n')}`
        : `Generation ${done.generation}: nothing has changed.`);
      toast('The configuration was read again.');
    } catch (e) {
      const lines = e instanceof ApiError && e.body && e.body.errors;
      put(outcome, lines ? `Refused; the old one goes on:\n${lines.join('\n')}` : e.message);
    }
  });
  const element = h('section.status', null, h('header.head', null, h('h1', null, 'Status'), reload), outcome,
    h('div.cards', null,
      h('section.card', null, h('h2', null, 'Daemon'), daemon),
      h('section.card', null, h('h2', null, 'Configuration'), config),
      h('section.card.wide', null, h('h2', null, 'Redis'), redis),
      h('section.card.wide', null, h('h2', null, 'Instances'), instances),
      h('section.card.wide', null, h('h2', null, 'Sources'), sources),
      h('section.card.wide', null, h('h2', null, 'Sinks'), sinks)));

  function update(s) {
    if (!s || JSON.stringify({ ...s, now_ms: 0 }) === shown) {
      return;
    }
    shown = JSON.stringify({ ...s, now_ms: 0 });
    daemon.replaceChildren(facts([['Version', s.version], ['Instance', s.instance],
                                  ['Running for', span(now() - s.started_ms)], ['Since', clock(s.started_ms)],
                                  ['Ready', state(s.ready, s.ready ? 'ready' : s.stopping ? 'stopping' : 'not ready')]]));
    const c = s.config, last = c.last;
    config.replaceChildren(facts([['File', c.file], ['Generation', c.generation && String(c.generation)],
                                  ['Loaded', c.loaded_ms && clock(c.loaded_ms)],
                                  ['Last read', last ? state(last.ok, `${last.ok ? 'taken' : 'refused'} ` +
                                    clock(last.at_ms)) : ''], ['Why', last && last.error]]));
    redis.replaceChildren(table(['Name', 'State', 'Address'], s.redis.map((r) =>
      [r.name, state(r.up && !r.trouble, r.trouble || (r.up ? 'up' : 'down')), r.url])));
    instances.replaceChildren(table(['Instance', '', 'Layout', 'Routes'], s.instances.map((i) =>
      [i.id, i.self ? 'this one' : '', String(i.layout), String(i.routes.length)])));
    sources.replaceChildren(table(['Name', 'Type', 'State', 'Received', 'Without an answer'], s.sources.map((r) =>
      [r.name, r.type, state(r.state === 'running', r.state), whole(r.received), whole(r.open)])));
    sinks.replaceChildren(table(['Name', 'Type', 'In flight', 'Delivered', 'Failed'], s.sinks.map((k) =>
      [k.name, k.type, `${count(k.in_flight)} of ${count(k.max_in_flight)}`, whole(k.delivered), whole(k.failed)])));
  }
  return { element, update };
}
