// SPDX-License-Identifier: BSD-2-Clause
// tap.js - what happens to the jobs of a route right now, as a list with a filter.

import { get, segment } from './api.js';
import { button, clock, h, put, whole } from './dom.js';

const KEPT = 1000, SHOWN = 200, PAUSE_MS = 300, AGAIN_MS = 3000;
const BAD = ['failed', 'rejected', 'dead', 'refused', 'not-stored', 'dropped', 'dead-failed'];
const GOOD = ['delivered', 'dead-delivered'];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const text_of = (e) => [e.what, e.id, e.reason, e.target, e.source, e.key, e.payload].filter(Boolean).join('\n').toLowerCase();

// 12:30:05.123
const time_of = (ms) => `${clock(ms).slice(11)}.${String(ms % 1000).padStart(3, '0')}`;

function row(e) {
  const kind = BAD.includes(e.what) ? 'bad' : GOOD.includes(e.what) ? 'running' : '';
  const details = [e.attempt > 1 ? `attempt ${e.attempt}` : '', e.reason, e.target && `to ${e.target}`,
                   e.source && `from ${e.source}`, e.key && `key ${e.key}`].filter(Boolean).join(' · ');
  const payload = e.payload ?? (e.payload_base64 && `${e.payload_base64} (base64)`);
  return h('tr', null, h('td.clock', null, time_of(e.at_ms)), h('td.word', null, h('span.state.' + kind, null, e.what)),
    h('th.text', { scope: 'row' }, e.id), h('td.text', null, details, payload ? h('code', null, payload) : null));
}

export function tapPane(name) {
  const body = h('tbody'), said = h('p.said', { role: 'status' });
  const field = h('input', { name: 'filter', type: 'search', spellcheck: 'false', autocomplete: 'off', oninput: () => draw() });
  const payload = h('input', { type: 'checkbox', name: 'payload', onchange: () => restart() });
  const hold = button('Pause', () => {
    held = !held;
    put(hold, held ? 'Continue' : 'Pause');
    draw();
  });
  const clear = button('Clear', () => {
    events = [];
    draw();
  });
  const table = h('div.scroll', null, h('table.list', null, h('thead', null, h('tr', null,
    h('th.clock', { scope: 'col' }, 'Time'), h('th.word', { scope: 'col' }, 'Event'), h('th.text', { scope: 'col' }, 'Id'),
    h('th.text', { scope: 'col' }, 'Details'))), body));
  const element = h('div.tap', null, h('form.filters', { onsubmit: (event) => event.preventDefault() },
    h('label', null, h('span', null, 'Contains'), field), h('label.check', null, payload, ' Payloads'),
    h('span.actions', null, hold, clear)), table, h('footer.pager', null, said));
  let events = [], missed = 0, held = false, asking = null, over = false, fault = '';

  // The newest first. While it is held, the rows stay, and new events are kept.
  function draw() {
    const wanted = field.value.trim().toLowerCase();
    const found = events.filter((e) => text_of(e).includes(wanted));
    if (!held || field === document.activeElement) {
      body.replaceChildren(...found.slice(-SHOWN).reverse().map(row));
    }
    table.hidden = !body.children.length;
    const shown_text = wanted ? `${whole(found.length)} of ${whole(events.length)} events match` : `${whole(events.length)} events`;
    put(said, fault || [held ? 'Paused' : events.length ? 'Live' : 'Waiting for events of this instance…',
      events.length ? shown_text : '', missed ? `${whole(missed)} missed, because they came too fast` : '']
      .filter(Boolean).join(' · '));
  }

  function add(answer) {
    missed += answer.missed;
    events.push(...answer.events);
    events.splice(0, events.length - KEPT);
    if (!held && answer.events.length) {
      draw();
    }
  }

  async function run(mine) {
    let cursor = null;
    while (!mine.signal.aborted) {
      try {
        const answer = await get(`/v1/admin/routes/${segment(name)}/tap`,
          { cursor, wait: '20s', payload: payload.checked ? 'true' : null }, mine.signal);
        cursor = answer.cursor;
        fault = '';
        add(answer);
        await sleep(document.hidden ? AGAIN_MS : PAUSE_MS);
      } catch (e) {
        if (e.name === 'AbortError') {
          return;
        }
        fault = e.message;
        draw();
        await sleep(AGAIN_MS);
      }
    }
  }

  function restart() {
    asking?.abort();
    asking = new AbortController();
    if (!over) {
      run(asking);
    }
  }

  draw();
  restart();
  return { element, refresh: () => {}, leave: () => {
    over = true;
    asking.abort();
  } };
}
