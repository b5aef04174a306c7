// SPDX-License-Identifier: BSD-2-Clause
// pages.js - a table with filters that is read page by page, and a drawer with the details of a row.

import { button, clock, fromNow, h, put, utc } from './dom.js';
import { now } from './model.js';

const LOOK_MS = 5000; // maximum time for one page, if few items match
const AGAIN_MS = 4000, QUICK_MS = 500; // the first page is read again unless that takes QUICK_MS or longer

// fields: [{ name, label, type, list, options }]; columns: [label, kind]; kind: see console.css. ask(filters, cursor,
// signal): returns { rows, cursor, looked, enough: true: do not fill the page }. cells(item): the first is a text, the
// others are texts or elements. enter(item, done, asked): returns the drawer's content, { element, refresh() }; done():
// reload the list; asked: the filters of the list. none(asked): returns the text for an empty list.
export function pages({ fields, columns, most, ask, cells, enter, extra, none }) {
  let stack = [null], cursor = null, asking = null, asked = {};
  let opened = null, shown = null; // the row of the drawer, and the drawer's content
  let missed = false;              // the last request failed
  let read_ms = 0, took_ms = 0;    // when the page was read, by the clock of Redis; and how long that took
  const body = h('tbody');
  const said = h('p.said', { role: 'status' });
  const age = h('span');           // of the page; not announced
  const again = button('Refresh', () => load(), 'link');
  const drawer = h('aside.drawer', { hidden: true, 'aria-label': 'Details' });
  const inputs = fields.map((f) => (f.options
    ? h('select', { name: f.name, onchange: () => begin() }, f.options.map((o) => h('option', { value: o }, o || 'any')))
    : h('input', { name: f.name, type: f.type || 'text', list: f.list, onchange: f.list ? () => begin() : () => {},
                   spellcheck: 'false', autocomplete: 'off', step: f.type === 'datetime-local' ? '1' : null })));
  const show = h('button', { type: 'submit' }, 'Show');
  const form = h('form.filters', {
    onsubmit: (event) => {
      event.preventDefault();
      begin();
    },
  }, fields.map((f, i) => h('label', null, h('span', null, f.label), inputs[i])), show, extra);
  const before = button('‹ Previous', () => {
    stack.pop();
    load();
  }, 'quiet');
  const next = button('Next ›', () => {
    stack.push(cursor);
    load();
  }, 'quiet');
  const table = h('table.list', null,
    h('thead', null, h('tr', null, columns.map(([label, kind]) => h('th.' + kind, { scope: 'col' }, label)))), body);
  const element = h('div', null, form, h('div.split', null, h('div.scroll', null, table), drawer),
    h('footer.pager', null, before, said, h('p.age', null, age, ' ', again), next));

  function filters() {
    const given = {};
    fields.forEach((f, i) => {
      const text = inputs[i].value.trim();
      if (text) {
        given[f.name] = f.type === 'datetime-local' ? new Date(text).toISOString() : text;
      }
    });
    return given;
  }

  // The filters as text.
  function spoken() {
    return fields.map((f, i) => inputs[i].value.trim() && `${f.label.toLowerCase()} ${inputs[i].value.trim()}`)
      .filter(Boolean).join(', ');
  }

  function close() {
    drawer.hidden = true;
    drawer.replaceChildren();
    opened?.removeAttribute('aria-current');
    opened?.querySelector('button').focus();
    opened = shown = null;
  }

  function open(item, line) {
    close();
    opened = line;
    line.setAttribute('aria-current', 'true');
    shown = enter(item, () => load(), asked);
    drawer.replaceChildren(h('p.close', null, button('Close', close, 'quiet')), shown.element);
    drawer.hidden = false;
    drawer.querySelector('button').focus();
  }

  function draw(items) {
    body.replaceChildren(...items.map((item) => {
      const [first, ...others] = cells(item);
      const line = h('tr', { onclick: (event) => {
        if (!event.target.closest('button') && !String(getSelection())) {
          open(item, line);
        }
      } }, h('th.' + columns[0][1], { scope: 'row' }, button(first, () => open(item, line), 'link')),
      others.map((cell, i) => h('td.' + columns[i + 1][1], null, cell)));
      return line;
    }));
  }

  // Read until the page is full or LOOK_MS is over.
  async function read(signal, quiet) {
    const items = [];
    let looked = 0, at = stack.at(-1);
    for (const begun = Date.now(); Date.now() - begun < LOOK_MS;) {
      const page = await ask({ ...asked, max: most - items.length }, at, signal);
      items.push(...page.rows);
      looked += page.looked;
      at = page.cursor;
      if (!at || page.enough || items.length >= most) {
        break;
      }
      if (!quiet) {
        put(said, `Searching… ${looked} examined`);
      }
    }
    return { items, looked, cursor: at };
  }

  function show_page({ items, looked }) {
    const from = stack.length > 1 ? `page ${stack.length}, ` : '';
    put(said, items.length ? `${from}${items.length} shown${cursor ? '' : ', end of the list'}`
      : cursor ? `no match among ${looked} examined; the list continues` : none(asked));
  }

  // The row that is open or has the focus; null: the focus is elsewhere.
  function focused() {
    const at = [...body.children].indexOf(opened || document.activeElement.closest('tr'));
    return opened || element.contains(document.activeElement)
      ? { at: Math.max(at, 0), id: body.children[at]?.querySelector('button').textContent } : null;
  }

  // quiet: the same page again, while the user may read it.
  async function load(quiet = false) {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking, begun = Date.now();
    let focus = focused();
    if (!quiet) {
      close();
      before.disabled = next.disabled = true;
      put(said, 'Looking…');
    }
    missed = false;
    try {
      const page = await read(signal, quiet);
      if (quiet && opened) {
        return;
      }
      focus = quiet ? focused() : focus;
      cursor = page.cursor;
      [read_ms, took_ms] = [now(), Date.now() - begun];
      draw(page.items);
      show_page(page);
      show_age();
      before.disabled = stack.length < 2;
      next.disabled = !cursor;
    } catch (e) {
      if (e.name === 'AbortError') {
        return;
      }
      missed = e.status === 0 || e.status === 503;
      read_ms = 0;
      draw([]);
      show_age();
      put(said, e.message);
    }
    before.hidden = next.hidden = before.disabled && next.disabled;
    if (focus && document.activeElement === document.body) { // the focused element was replaced
      const rows = [...body.children].map((line) => line.querySelector('button'));
      (rows.find((b) => b.textContent === focus.id) || rows[Math.min(focus.at, rows.length - 1)] || show).focus();
    }
  }

  // The page is of the past. Mark the rows whose time has passed since: their jobs may have left.
  function show_age() {
    let passed = 0;
    body.querySelectorAll('time').forEach((t) => {
      const ms = Date.parse(t.dateTime), is_over = ms > read_ms && ms < now();
      put(t.lastChild, fromNow(ms, now()));
      t.closest('tr').classList.toggle('passed', is_over);
      passed += is_over;
    });
    again.hidden = !read_ms;
    put(age, read_ms ? `as of ${clock(read_ms).slice(11)}` + (passed ? `; ${passed} of these times ${passed === 1 ? 'has' : 'have'} passed since` : '') : '');
  }

  // The user neither reads a row nor selects text, and the list was quick to read.
  const may_reload = () => read_ms && now() - read_ms >= AGAIN_MS && took_ms < QUICK_MS && stack.length === 1 && !opened &&
    !String(getSelection()) && !document.querySelector('dialog');

  function begin() {
    stack = [null];
    asked = filters();
    load();
  }

  // Called after each poll: updates relative times, reads the first page again, and repeats a failed request.
  function refresh() {
    if (missed) {
      load();
    } else if (may_reload()) {
      load(true);
    }
    show_age();
    drawer.querySelectorAll('time').forEach((t) => put(t.lastChild, fromNow(Date.parse(t.dateTime), now())));
    shown?.refresh?.();
  }

  element.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !drawer.hidden) {
      close();
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest('tbody tr');
    if (step && line) {
      event.preventDefault();
      (step > 0 ? line.nextElementSibling : line.previousElementSibling)?.querySelector('button')?.focus();
    }
  });
  return { element, inputs, begin, filters, spoken, refresh, leave: () => asking?.abort() };
}

// A local time, and its distance from now.
export function moment(ms) {
  return ms === null || ms === undefined ? null
    : h('time', { datetime: utc(ms), title: utc(ms) }, clock(ms) + ' ', h('small', null, fromNow(ms, now())));
}

// Names and values, one per line; null if there are none.
export function facts(rows) {
  const given = rows.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const lines = given.map(([name, value]) => [h('dt', null, name), h('dd', null, value)]);
  return lines.length ? h('dl.facts', null, lines) : null;
}
