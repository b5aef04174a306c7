// SPDX-License-Identifier: BSD-2-Clause
// dead.js - the dead letters of a route: looked through, and brought back or dropped, one by one or all
// that match; what would be done is counted first.

import { ask, get, post, segment } from './api.js';
import { button, clock, dialog, h, put, toast, whole } from './dom.js';
import { facts, pages } from './pages.js';
import { content, when } from './jobs.js';

const PAGE = 50, STEP = 500;
const REASONS = ['', 'rejected', 'retries', 'expired', 'late', 'no-route', 'undecodable', 'oversize', 'loop', 'too-long',
                 'bad-delay', 'bad-id', 'bad-op', 'bad-target', 'bad-retry', 'bad-repeat'];

const DO = {
  replay: { label: 'Replay', done: 'replayed', kind: 'primary',
            why: 'They are due again, now or one after another.' },
  drop: { label: 'Drop', done: 'dropped', kind: 'danger', why: 'They are deleted for good.' },
};

// Goes through all that match. tell(sum): after each step; is_over(): somebody wants no more.
async function run(name, what, filters, more, tell, is_over) {
  const sum = { done: 0, refused: 0, looked: 0 };
  let cursor = null, not_before = null;
  do {
    const step = await post(`/v1/routes/${segment(name)}/dead/${what}`,
      { ...filters, ...more, max: STEP, cursor, ...(what === 'replay' && not_before ? { not_before } : {}) });
    sum.done += step.done;
    sum.refused += step.refused;
    sum.looked += step.looked;
    cursor = step.cursor;
    not_before = more.rate ? step.not_before : null;
    tell(sum);
  } while (cursor && !is_over());
  return sum;
}

async function bulk(name, what, filters, done) {
  const row = DO[what];
  const found = h('p', { role: 'status' }, 'Counting…');
  const rate = h('input', { name: 'rate', type: 'number', min: '0.001', max: '1000000', step: 'any',
                            placeholder: 'all at once', id: 'rate' });
  let over = false, sum = null;
  const body = h('div', null, found, h('p', null, Object.entries(filters).length
    ? 'With: ' + Object.entries(filters).map(([k, v]) => `${k} ${v}`).join(', ') : 'No filter is set: these are all.'),
  h('p', null, row.why), what === 'replay' ? h('div.fields', null, h('label', { for: 'rate' }, 'Per second'), rate) : null);
  const tell = (text) => (s) => put(found, `${whole(s.done)} ${text}` +
    (s.refused ? `, ${whole(s.refused)} refused (replayed too often, or without a route)` : ''));
  const counted = run(name, what, filters, { dry_run: true }, tell(`would be ${row.done} so far…`), () => over)
    .then((s) => {
      tell(`will be ${row.done}`)(s);
      return s;
    });
  counted.catch((e) => put(found, e.message));
  const result = await dialog(`${row.label} dead letters of ${name}?`, body, row.label, async () => {
    await counted;
    sum = await run(name, what, filters, rate.value ? { rate: rate.value } : {}, tell(`${row.done} so far…`), () => over);
    return sum;
  }, row.kind);
  over = true;
  if (result) {
    toast(`${whole(result.done)} ${row.done}` + (result.refused ? `, ${whole(result.refused)} refused` : ''));
    done();
  }
}

function detail(name, letter, done) {
  const path = `/v1/routes/${segment(name)}/dead/${segment(letter.id)}`;
  const one = (act, text) => async () => {
    try {
      if (await act()) {
        toast(`${letter.id} is ${text}.`);
        done();
      }
    } catch (e) {
      toast(e.message, true);
    }
  };
  return h('div', null, h('h2.id', null, letter.id),
    h('p.buttons', null, button('Replay', one(() => post(`${path}/replay`), 'replayed'), 'primary'),
      button('Drop…', one(() => dialog(`Drop ${letter.id}?`, h('p', null, 'It is deleted for good.'), 'Drop',
        () => ask('DELETE', path), 'danger'), 'dropped'), 'danger')),
    facts([['Reason', letter.reason], ['Error', letter.error], ['Status', letter.status && String(letter.status)],
           ['Attempts', String(letter.attempts)], ['Replays', String(letter.replays)],
           ['Buried', when(letter.buried && Date.parse(letter.buried))],
           ['First attempt', when(letter.first && Date.parse(letter.first))],
           ['Last attempt', when(letter.last && Date.parse(letter.last))],
           ['Was due', when(letter.due && Date.parse(letter.due))],
           ['Note', letter.unreadable ? 'Its record cannot be read by this tarry.' : '']]),
    ...(letter.unreadable ? [] : content(letter)).filter(Boolean));
}

export function deadList(name) {
  const filters = () => {
    const given = list.filters();
    delete given.max;
    return given;
  };
  const list = pages({
    most: PAGE,
    none: 'There are no dead letters.',
    fields: [{ name: 'id_prefix', label: 'Id begins with', type: 'search' },
             { name: 'reason', label: 'Reason', options: REASONS },
             { name: 'from', label: 'Buried from', type: 'datetime-local' },
             { name: 'to', label: 'to', type: 'datetime-local' }],
    extra: h('span.actions', null,
      button('Replay these…', () => bulk(name, 'replay', filters(), () => list.begin())),
      button('Drop these…', () => bulk(name, 'drop', filters(), () => list.begin()), 'danger')),
    columns: ['Id', 'Reason', 'Error', 'Attempts', 'Buried'],
    ask: async (given, cursor, signal) => {
      const page = await get(`/v1/routes/${segment(name)}/dead`, { ...given, cursor }, signal);
      return { rows: page.items, cursor: page.cursor, looked: page.looked };
    },
    cells: (letter) => [letter.id, letter.reason, letter.error, String(letter.attempts),
                        h('time', { datetime: letter.buried, title: letter.buried },
                          clock(Date.parse(letter.buried)))],
    enter: (letter, done) => detail(name, letter, done),
  });
  list.begin();
  return list;
}
