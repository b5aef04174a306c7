// SPDX-License-Identifier: BSD-2-Clause
// dead.js - the dead letters of a route: lists them, and replays or drops single letters or all that match a
// filter. The dialog counts the matches first.

import { ask, get, idSegment, post, segment } from './api.js';
import { button, dialog, h, is_gone, put, toast, whole } from './dom.js';
import { facts, moment, pages } from './pages.js';
import { content, key_of } from './jobs.js';

const PAGE = 50, STEP = 500;
const REASONS = ['', 'rejected', 'retries', 'expired', 'late', 'no-route', 'too-many-queues', 'undecodable', 'oversize', 'loop', 'too-long',
                 'bad-delay', 'bad-id', 'bad-op', 'bad-target', 'bad-retry', 'bad-repeat'];

const DO = {
  replay: { label: 'Replay', done: 'replayed', kind: 'primary',
            why: 'They become due again, at once or at the given rate.' },
  drop: { label: 'Drop', done: 'dropped', kind: 'danger', why: 'They are deleted permanently.' },
};

// Process all matches. report(sum): called after each step; is_over(): true stops.
async function run(name, what, filters, more, report, is_over) {
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
    report(sum);
  } while (cursor && !is_over());
  return sum;
}

const letters = (n) => (n === 1 ? '1 dead letter' : `${whole(n)} dead letters`);

// filters: parameters of the API; spoken: the same as text.
async function bulk(name, what, filters, spoken, done) {
  const row = DO[what];
  const found = h('p', { role: 'status' }, 'Counting…');
  const rate = h('input', { name: 'rate', type: 'number', min: '0.001', max: '1000000', step: 'any',
                            placeholder: 'all at once', id: 'rate' });
  let over = false, sum = null; // sum: of changed letters, not of counted ones
  const body = h('div', null, found, h('p', null, spoken ? `Only: ${spoken}.` : 'No filter is set: this applies to all.'),
    h('p', null, row.why), what === 'replay' ? h('div.fields', null, h('label', { for: 'rate' }, 'Per second'), rate) : null);
  const report = (text) => (s) => put(found, `${letters(s.done)} ${text}` +
    (s.refused ? `, ${whole(s.refused)} refused (replays_max reached, or no route)` : ''));
  const counted = run(name, what, filters, { dry_run: true }, report(`would be ${row.done} so far…`), () => over)
    .then(report(`will be ${row.done}`));
  counted.catch((e) => put(found, e.message));
  try {
    await dialog(`${row.label} dead letters of ${name}?`, body, row.label, async () => {
      await counted;
      await run(name, what, filters, rate.value ? { rate: rate.value } : {}, (s) => {
        sum = s;
        report(`${row.done} so far…`)(s);
      }, () => over);
    }, row.kind);
  } catch (e) {
    toast(e.message, true);
  }
  over = true;
  if (sum) { // also if the dialog was closed before the end
    toast(`${letters(sum.done)} ${row.done}` + (sum.refused ? `, ${whole(sum.refused)} refused` : ''));
    done();
  }
}

function detail(name, letter, done) {
  const path = () => `/v1/routes/${segment(name)}/dead/${idSegment(letter)}`;
  const one = (act, text) => async () => {
    try {
      if (await act()) {
        toast(`${letter.id} is ${text}.`);
        done();
      }
    } catch (e) {
      toast(`${letter.id}: ${e.message}`, true);
      if (is_gone(e)) { // somebody else has replayed or dropped it
        done();
      }
    }
  };
  return h('div', null, h('h2.id', null, letter.id),
    h('p.buttons', null, button('Replay', one(() => post(`${path()}/replay`), 'replayed'), 'primary'),
      button('Drop…', one(() => dialog(`Drop ${letter.id}?`, h('p', null, 'It is deleted permanently.'), 'Drop',
        () => ask('DELETE', path()), 'danger'), 'dropped'), 'danger')),
    facts([['Reason', letter.reason], ['Error', letter.error], ['Status', letter.status && String(letter.status)],
           ['Attempts', String(letter.attempts)], ['Replays', String(letter.replays)],
           ...[['Buried', 'buried'], ['First attempt', 'first'], ['Last attempt', 'last'], ['Was due', 'due']]
             .map(([label, what]) => [label, letter[what] && moment(Date.parse(letter[what]))]),
           ['Key', key_of(letter)],
           ['Note', letter.unreadable ? 'Its record cannot be read by this version of tarry.' : '']]),
    ...(letter.unreadable ? [] : content(letter)));
}

export function deadList(name) {
  const all = (what) => bulk(name, what, list.filters(), list.spoken(), list.begin);
  const list = pages({
    most: PAGE,
    none: (asked) => (Object.keys(asked).length ? 'No dead letter matches.' : 'There are no dead letters.'),
    fields: [{ name: 'id_prefix', label: 'Id begins with', type: 'search' },
             { name: 'reason', label: 'Reason', options: REASONS },
             { name: 'from', label: 'Buried from', type: 'datetime-local' },
             { name: 'to', label: 'Until', type: 'datetime-local' }],
    extra: h('span.actions', null, button('Replay these…', () => all('replay')),
             button('Drop these…', () => all('drop'), 'danger')),
    columns: [['Id', 'text'], ['Reason', 'word'], ['Error', 'text.more'], ['Attempts', 'number.more'], ['Buried', 'time']],
    ask: async (asked, cursor, signal) => {
      const page = await get(`/v1/routes/${segment(name)}/dead`, { ...asked, cursor }, signal);
      return { rows: page.items, cursor: page.cursor, looked: page.looked };
    },
    cells: (letter) => [letter.id, letter.reason, letter.error, String(letter.attempts), moment(Date.parse(letter.buried))],
    enter: (letter, done) => ({ element: detail(name, letter, done) }),
  });
  list.begin();
  return list;
}
