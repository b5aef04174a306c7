// SPDX-License-Identifier: BSD-2-Clause
// dead_groups.js - the dead letters of a route, counted by error.

import { get, segment } from './api.js';
import { button, clock, h, put, whole } from './dom.js';

const EACH_MS = 15000, PAGES_MAX = 10, MOST = 10;

// An instant as the value of a field for a local time; add_ms: to include the whole second.
export const local = (instant, add_ms = 0) => clock(Date.parse(instant) + add_ms).replace(' ', 'T');

// The groups of the pages, merged. complete: false if there are more letters than the pages contain.
async function read(name, queue, signal) {
  const merged = new Map();
  let cursor = null, others = 0, pages = 0;
  do {
    const page = await get(`/v1/routes/${segment(name)}/dead`, { group: true, queue, cursor }, signal);
    if (!page.groups) { // a daemon that does not group
      return { groups: [], others: 0, complete: true };
    }
    for (const g of page.groups) {
      const key = `${g.reason} ${g.error}`, known = merged.get(key);
      merged.set(key, known ? { ...known, count: known.count + g.count, first: g.first < known.first ? g.first : known.first,
                                last: g.last > known.last ? g.last : known.last } : g);
    }
    others += page.others;
    cursor = page.cursor;
  } while (cursor && ++pages < PAGES_MAX);
  return { groups: [...merged.values()].sort((a, b) => b.count - a.count), others, complete: !cursor };
}

// choose(group): the user wants to see the letters of a group.
export function deadGroups(name, queue, choose) {
  const body = h('tbody'), more = h('p.hint');
  const element = h('section.groups', { hidden: true }, h('h3', null, 'By error'), h('div.scroll', null, h('table.list', null,
    h('thead', null, h('tr', null, h('th.number', { scope: 'col' }, 'Letters'), h('th.text', { scope: 'col' }, 'Error'),
      h('th.word', { scope: 'col' }, 'Reason'), h('th.span.more', { scope: 'col' }, 'Buried'))), body)), more);
  let asked_ms = 0, asking = null;

  const times = ([first, last]) => (first === last ? first : `${first} – ${last.slice(5)}`);
  const row = (g) => h('tr', null, h('td.number', null, whole(g.count)),
    h('th.text', { scope: 'row' }, button(g.error || g.reason, () => choose(g), 'link')), h('td.word', null, g.reason),
    h('td.span.more', null, times([g.first, g.last].map((instant) => clock(Date.parse(instant))))));

  async function load() {
    asking?.abort();
    asking = new AbortController();
    asked_ms = Date.now();
    try {
      const { groups, others, complete } = await read(name, queue, asking.signal);
      const hidden = groups.slice(MOST).reduce((all, g) => all + g.count, others);
      const text = JSON.stringify(groups.slice(0, MOST));
      if (body.dataset.shown !== text) { // else the focus and a selection stay
        body.dataset.shown = text;
        body.replaceChildren(...groups.slice(0, MOST).map(row));
      }
      element.hidden = !groups.length;
      put(more, [hidden ? `${whole(hidden)} with other errors.` : '', complete ? '' : 'Only the oldest letters are counted.']
        .filter(Boolean).join(' '));
    } catch {
      // the list below shows the error
    }
  }
  load();
  return { element, refresh: () => Date.now() - asked_ms >= EACH_MS && load(), leave: () => asking?.abort() };
}
