// SPDX-License-Identifier: BSD-2-Clause
// figures.js - a row of named values.

import { h, put } from './dom.js';

function figure(label, show) {
  const name = h('dt'), value = h('dd'), more = h('dd.note');
  const element = h('div.figure', null, name, value, more);
  return { element, update: (of) => {
    const given = show(of);
    element.hidden = !given;
    if (given) {
      const [text, title, note] = given;
      put(name, typeof label === 'string' ? label : label(of));
      put(value, text, title || '');
      put(more, note || '');
      value.classList.toggle('unknown', text === 'unknown');
    }
  } };
}

// rows: [label, show]; label: a text, or a function of the object; show(object): returns [text, title, note]; null: do
// not show it. update(object): shows its values.
export function figures(rows) {
  const all = rows.map(([label, show]) => figure(label, show));
  return { element: h('dl.figures', null, all.map((f) => f.element)), update: (of) => all.forEach((f) => f.update(of)) };
}
