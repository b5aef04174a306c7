// SPDX-License-Identifier: BSD-2-Clause
// dead.js - the dead letters of a route: lists them, and replays or drops single letters or all that match.

import { ask, get, idSegment, post, segment } from './api.js';
import { bulkDead } from './bulk.js';
import { deadGroups, local } from './dead_groups.js';
import { button, dialog, h, is_gone, toast } from './dom.js';
import { facts, moment, pages } from './pages.js';
import { content, key_of } from './content.js';

const PAGE = 50;
const REASONS = ['', 'rejected', 'retries', 'expired', 'late', 'no-route', 'too-many-queues', 'undecodable', 'oversize', 'loop', 'too-long',
                 'bad-delay', 'bad-id', 'bad-op', 'bad-target', 'bad-retry', 'bad-repeat'];

function detail(name, letter, queue, done) {
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
    h('p.buttons', null, button('Replay', one(() => post(`${path()}/replay`, { queue }), 'replayed'), 'primary'),
      button('Drop…', one(() => dialog(`Drop ${letter.id}?`, h('p', null, 'It is deleted permanently.'), 'Drop',
        () => ask('DELETE', path(), { queue }), 'danger'), 'dropped'), 'danger')),
    facts([['Reason', letter.reason], ['Error', letter.error], ['Status', letter.status && String(letter.status)],
           ['Attempts', String(letter.attempts)], ['Replays', String(letter.replays)],
           ...[['Buried', 'buried'], ['First attempt', 'first'], ['Last attempt', 'last'], ['Was due', 'due']]
             .map(([label, what]) => [label, letter[what] && moment(Date.parse(letter[what]))]),
           ['Key', key_of(letter)], ['Content type of the answer', letter.answer_type],
           ['Note', letter.unreadable ? 'Its record cannot be read by this version of tarry.' : '']]),
    ...(letter.answer ? [h('h3', null, 'Answer of the receiver'), h('pre', { tabindex: '0' }, letter.answer)] : []),
    ...(letter.unreadable ? [] : content(letter)));
}

// queue: its name, for a route to queues.
export function deadList(name, queue) {
  const groups = deadGroups(name, queue, (g) => {
    [list.inputs[0].value, list.inputs[1].value] = ['', g.reason];
    [list.inputs[2].value, list.inputs[3].value] = [local(g.first), local(g.last, 1000)];
    list.begin();
  });
  const all = (what) => bulkDead(name, what, { ...list.filters(), queue }, list.spoken(), list.begin);
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
      const page = await get(`/v1/routes/${segment(name)}/dead`, { ...asked, queue, cursor }, signal);
      return { rows: page.items, cursor: page.cursor, looked: page.looked };
    },
    cells: (letter) => [letter.id, letter.reason, letter.error, String(letter.attempts), moment(Date.parse(letter.buried))],
    enter: (letter, done) => ({ element: detail(name, letter, queue, done) }),
  });
  list.begin();
  return { ...list, element: h('div', null, groups.element, list.element), refresh: () => {
    groups.refresh();
    list.refresh();
  }, leave: () => {
    groups.leave();
    list.leave();
  } };
}
