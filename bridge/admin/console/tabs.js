// SPDX-License-Identifier: BSD-2-Clause
// tabs.js - panels of which one is shown; the arrow keys change it.

import { h, put } from './dom.js';

// all: [name, label, make()]; make() returns { element, refresh(), leave() }.
export function tabs(all) {
  const panel = h('div.panel', { role: 'tabpanel', id: 'panel', tabindex: '-1' });
  let shown = null;
  const numbers = all.map(() => h('small'));
  const buttons = all.map(([what, label], i) => h('button', {
    type: 'button', role: 'tab', id: 'tab-' + what, 'aria-controls': 'panel', onclick: () => open(i),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) {
        const next = (i + step + all.length) % all.length;
        open(next);
        buttons[next].focus();
      }
    },
  }, label, numbers[i]));
  function open(i) {
    shown?.leave?.();
    buttons.forEach((b, k) => {
      b.setAttribute('aria-selected', k === i);
      b.tabIndex = k === i ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', buttons[i].id);
    shown = all[i][2]();
    panel.replaceChildren(shown.element);
  }
  open(0);
  return { element: h('section.jobs', null, h('div.tabs', { role: 'tablist' }, buttons), panel),
           // texts: a number for each tab, or ''
           count: (texts) => texts.forEach((text, i) => put(numbers[i], text && ` ${text}`)),
           refresh: () => shown.refresh?.(), leave: () => shown.leave?.() };
}
