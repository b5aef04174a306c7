// SPDX-License-Identifier: BSD-2-Clause
// status.js - the daemon: its configuration, connections and the other instances.

import { ApiError, post } from './api.js';
import { button, clock, count, h, put, span, toast, whole } from './dom.js';
import { now } from './model.js';

// A text, and whether all is well.
const state = (good, text) => ({ good, text });

// value: a text, or a state(). Changes only what differs, so that a selection stays.
function fill(cell, value) {
  const { good, text } = value === Object(value) ? value : { text: value };
  const kind = good === undefined ? '' : good ? 'state running' : 'state bad';
  if (cell.firstChild.className !== kind) {
    cell.firstChild.className = kind;
  }
  put(cell.firstChild, text);
}

// columns: [label, kind]; update(rows) expects values for fill().
function table(title, columns) {
  const body = h('tbody');
  const none = h('p.empty', null, 'None.');
  const scroll = h('div.scroll', null, h('table.list', null,
    h('thead', null, h('tr', null, columns.map(([label, kind]) => h('th.' + kind, { scope: 'col' }, label)))), body));
  const row = () => h('tr', null, columns.map(([, kind], i) =>
    h((i ? 'td.' : 'th.') + kind, i ? null : { scope: 'row' }, h('span'))));
  function update(rows) {
    scroll.hidden = !rows.length;
    none.hidden = rows.length > 0;
    while (body.children.length > rows.length) {
      body.lastChild.remove();
    }
    rows.forEach((cells, i) => {
      const line = body.children[i] || body.appendChild(row());
      cells.forEach((value, k) => fill(line.children[k], value));
    });
  }
  return { element: h('section.card.wide', null, h('h2', null, title), scroll, none), update };
}

// Names with values; names without a value are omitted.
function card(title, labels) {
  const lines = labels.map((label) => [h('dt', null, label), h('dd', null, h('span'))]);
  return { element: h('section.card', null, h('h2', null, title), h('dl.facts', null, lines)),
           update: (values) => values.forEach((value, i) => {
             lines[i].forEach((part) => (part.hidden = !value));
             fill(lines[i][1], value || '');
           }) };
}

function reloadButton(outcome) {
  return button('Reload configuration', async () => {
    outcome.hidden = false;
    put(outcome, 'Reading…');
    try {
      const done = await post('/v1/admin/reload');
      put(outcome, done.changed.length ? `Generation ${done.generation}:\n${done.changed.join('\n')}`
        : `Generation ${done.generation}: no changes.`);
      toast('The configuration was reloaded.');
    } catch (e) {
      const lines = e instanceof ApiError && e.body && e.body.errors;
      put(outcome, lines ? `Rejected; the previous configuration remains active:\n${lines.join('\n')}` : e.message);
    }
  });
}

export function statusView() {
  const daemon = card('Daemon', ['Version', 'Instance', 'Running for', 'Since', 'State']);
  const config = card('Configuration', ['File', 'Generation', 'Loaded', 'Last read', 'Outcome', 'Why']);
  const redis = table('Redis', [['Name', 'word'], ['State', 'text'], ['Durability', 'text'], ['Address', 'text.more']]);
  const warnings = h('p.warn');
  redis.element.append(warnings);
  const instances = table('Instances', [['Instance', 'text'], ['Delivers', 'number']]);
  const sources = table('Sources', [['Name', 'text'], ['Type', 'word.more'], ['State', 'word'], ['Received', 'number'],
                                    ['Unanswered', 'number']]);
  const sinks = table('Sinks', [['Name', 'text'], ['Type', 'word.more'], ['In flight', 'number'], ['Delivered', 'number'],
                                ['Failed', 'number']]);
  const outcome = h('pre', { hidden: true, tabindex: '0', role: 'status' });
  const cards = h('div.cards', { hidden: true }, [daemon, config, redis, instances, sources, sinks].map((c) => c.element));
  const element = h('section.status', null, h('header.head', null, h('h1', null, 'Status'), reloadButton(outcome)), outcome,
    cards);

  function update(s) {
    if (!s) {
      return;
    }
    cards.hidden = false;
    daemon.update([s.version, s.instance, span(now() - s.started_ms), clock(s.started_ms),
                   state(s.ready, s.ready ? 'ready' : s.stopping ? 'stopping' : 'not ready')]);
    const { file, generation, loaded_ms, last } = s.config;
    config.update([file, String(generation), clock(loaded_ms), clock(last.at_ms),
                   state(last.ok, last.ok ? 'accepted' : 'rejected'), last.error]);
    redis.update(s.redis.map((r) => [r.name, state(r.up && !r.trouble, r.trouble || (r.up ? 'up' : 'down')), 
                                 r.durability ? state(!r.warnings.length, r.durability) : '–', r.url]));
    put(warnings, s.redis.flatMap((r) => r.warnings || []).join(' '));
    instances.update(s.instances.map((i) => [i.self ? `${i.id} (this one)` : i.id,
                                             i.routes.length === 1 ? '1 route' : `${whole(i.routes.length)} routes`]));
    sources.update(s.sources.map((r) => [r.name, r.type, state(r.state === 'running', r.state), whole(r.received),
                                         whole(r.open)]));
    sinks.update(s.sinks.map((k) => [k.name, k.type, `${count(k.in_flight)} of ${count(k.max_in_flight)}`,
                                     whole(k.delivered), whole(k.failed)]));
  }
  return { element, update };
}
