// SPDX-License-Identifier: BSD-2-Clause
// pages.js - a table that is read a page at a time, with filters; and the drawer for one of its rows.

import { button, h, put } from './dom.js';

const LOOK_MS = 5000; // for one page, where a filter lets little through

// fields: [{ name, label, type, placeholder, options }]; columns: labels; ask(filters, cursor, signal):
// gives { rows, cursor, looked, enough: it is not to go on for a full page }; cells(item): the first a text,
// the others texts or elements; enter(item, done): what the drawer shows; done(): the list is out of date.
export function pages({ fields, columns, most, ask, cells, enter, extra, none }) {
  let stack = [null], cursor = null, asking = null, opened = null;
  const body = h('tbody');
  const said = h('p.said', { role: 'status' });
  const drawer = h('aside.drawer', { hidden: true, 'aria-label': 'Details' });
  const inputs = fields.map((f) => (f.options
    ? h('select', { name: f.name, onchange: () => begin() }, f.options.map((o) => h('option', { value: o }, o || 'any')))
    : h('input', { name: f.name, type: f.type || 'text', placeholder: f.placeholder || '', list: f.list || null,
                   spellcheck: 'false', autocomplete: 'off', step: f.type === 'datetime-local' ? '1' : null })));
  const form = h('form.filters', {
    onsubmit: (event) => {
      event.preventDefault();
      begin();
    },
  }, fields.map((f, i) => h('label', null, h('span', null, f.label), inputs[i])),
  h('button', { type: 'submit' }, 'Show'), extra);
  const before = button('‹ Before', () => {
    stack.pop();
    load();
  }, 'quiet');
  const next = button('Next ›', () => {
    stack.push(cursor);
    load();
  }, 'quiet');
  const table = h('table.list', null,
    h('thead', null, h('tr', null, columns.map((c) => h('th', { scope: 'col' }, c)))), body);
  const element = h('div', null, form, h('div.split', null, h('div.scroll', null, table), drawer),
    h('footer.pager', null, before, said, next));

  function filters() {
    const given = {};
    inputs.forEach((input) => {
      const text = input.value.trim();
      if (text) {
        given[input.name] = input.type === 'datetime-local' ? new Date(text).toISOString() : text;
      }
    });
    return given;
  }

  function close() {
    drawer.hidden = true;
    drawer.replaceChildren();
    opened?.removeAttribute('aria-current');
    opened?.querySelector('button')?.focus();
    opened = null;
  }

  function open(item, line) {
    close();
    opened = line;
    line.setAttribute('aria-current', 'true');
    drawer.replaceChildren(h('p.close', null, button('Close', close, 'quiet')), enter(item, () => {
      close();
      load();
    }));
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
      } }, h('th', { scope: 'row' }, button(first, () => open(item, line), 'link')),
      others.map((cell) => (cell instanceof Node ? h('td', null, cell) : h('td', { title: cell }, cell))));
      return line;
    }));
  }

  async function load() {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    const items = [];
    let looked = 0;
    close();
    before.disabled = next.disabled = true;
    put(said, 'Looking…');
    try {
      cursor = stack[stack.length - 1];
      for (const begun = Date.now(); Date.now() - begun < LOOK_MS;) {
        const page = await ask({ ...filters(), max: most - items.length }, cursor, signal);
        items.push(...page.rows);
        looked += page.looked;
        cursor = page.cursor;
        if (!cursor || page.enough || items.length >= most) {
          break;
        }
        put(said, `Looking… ${looked} looked at`);
      }
      draw(items);
      const from = stack.length > 1 ? `page ${stack.length}, ` : '';
      put(said, items.length ? `${from}${items.length} shown${cursor ? '' : ', no more behind them'}`
        : cursor ? `none among ${looked} that were looked at; more are behind them` : none);
      before.disabled = stack.length < 2;
      next.disabled = !cursor;
    } catch (e) {
      if (e.name !== 'AbortError') {
        draw([]);
        put(said, e.message);
      }
    }
  }

  function begin() {
    stack = [null];
    load();
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
  return { element, begin, filters, leave: () => asking?.abort() };
}

// Names and values, one below another; null where there are none.
export function facts(rows) {
  const given = rows.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return given.length ? h('dl.facts', null, given.map(([name, value]) => [h('dt', null, name), h('dd', null, value)])) : null;
}
