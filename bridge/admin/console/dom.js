// SPDX-License-Identifier: BSD-2-Clause
// dom.js - elements, and values as text. Never parses text as HTML, because jobs may contain any text.

// h('a.mark', { href: '#/' }, 'text', element, ...). on...: listeners. null children are skipped.
export function h(what, attributes, ...children) {
  const [tag, ...classes] = what.split('.');
  const element = document.createElement(tag);
  element.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (typeof value === 'boolean') {
      element.toggleAttribute(name, value);
    } else if (value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Change only what differs, so that screen readers and selections are not disturbed.
export function put(element, text, title) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
  if (title !== undefined && element.title !== title) {
    element.title = title;
  }
}

export function button(text, action, kind) {
  return h('button' + (kind ? '.' + kind : ''), { type: 'button', onclick: action }, text);
}

// Buttons of which one is chosen. options: [value, text]; act(value): called when the choice changes.
export function choice(label, options, chosen, act) {
  const buttons = options.map(([value, text]) => button(text, () => {
    choose(value);
    act(value);
  }));
  function choose(value) {
    buttons.forEach((b, i) => b.setAttribute('aria-pressed', options[i][0] === value));
  }
  choose(chosen);
  return { element: h('span.choice', { role: 'group', 'aria-label': label }, buttons), choose };
}

const grouped = new Intl.NumberFormat('en-US');

export const whole = (n) => (n === null || n === undefined ? '–' : grouped.format(n));

// 12,345; above that 1.23 M
export function count(n) {
  if (n === null || n === undefined) {
    return '–';
  }
  return n < 100000 ? grouped.format(n) : n < 1e6 ? `${(n / 1e3).toFixed(0)} k`
    : n < 1e9 ? `${(n / 1e6).toFixed(n < 1e7 ? 2 : 1)} M` : `${(n / 1e9).toFixed(2)} G`;
}

// A number that Redis counts; null: unknown, because Redis has not answered.
export const known = (n) => (n === null || n === undefined ? 'unknown' : count(n));

// The sum of such numbers; null if one of them is unknown.
export const sum = (numbers) => numbers.reduce((all, n) =>
  (all === null || n === null || n === undefined ? null : all + n), 0);

export function rate(n) {
  if (n === null || n === undefined) {
    return '–';
  }
  return n === 0 ? '0' : n < 10 ? n.toFixed(1) : count(Math.round(n));
}

// 850 ms, 12.3 s, 4 m 20 s, 3 h 5 m, 2 d 4 h
export function span(ms) {
  if (ms === null || ms === undefined) {
    return '–';
  }
  const s = ms / 1000, two = (a, au, b, bu) => (Math.floor(b) ? `${a} ${au} ${Math.floor(b)} ${bu}` : `${a} ${au}`);
  if (ms < 1000) {
    return `${Math.round(ms)} ms`;
  } else if (s < 60) {
    return s < 10 ? `${s.toFixed(1)} s` : `${Math.floor(s)} s`;
  } else if (s < 3600) {
    return two(Math.floor(s / 60), 'm', s % 60, 's');
  } else if (s < 86400) {
    return two(Math.floor(s / 3600), 'h', (s % 3600) / 60, 'm');
  }
  return two(Math.floor(s / 86400), 'd', (s % 86400) / 3600, 'h');
}

export function fromNow(ms, now) {
  if (ms === null || ms === undefined) {
    return '–';
  }
  const away = ms - now;
  return Math.abs(away) < 500 ? 'now' : away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
}

const two = (n) => String(n).padStart(2, '0');

// Local time of the browser: 2026-01-31 12:00:30
export function clock(ms) {
  if (ms === null || ms === undefined) {
    return '–';
  }
  const d = new Date(ms);
  if (isNaN(d)) {
    return String(ms);
  }
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ` +
    `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export const utc = (ms) => (isNaN(new Date(ms)) ? '' : new Date(ms).toISOString());

export function size(bytes) {
  return bytes < 1024 ? `${bytes} B` : bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB`
    : `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

// Show a message about a success or an error for a few seconds.
export function toast(text, bad) {
  const one = h('p.toast' + (bad ? '.bad' : ''), null, text);
  document.getElementById('toasts').append(one);
  setTimeout(() => one.remove(), bad ? 9000 : 4000);
}

// The object of the request no longer exists.
export const is_gone = (e) => e.status === 404 || e.status === 410;

// Show a dialog with a form. Returns the result of act(), or null if it was closed. If act() throws, the dialog
// shows the error and stays open; but if the object is gone, the dialog closes and rejects with the error. stop: the
// label of the button that closes the dialog while act() works.
export function dialog(title, body, yes, act, kind, stop = 'Back') {
  return new Promise((resolve, reject) => {
    let result = null, gone = null;
    const fault = h('p.fault', { role: 'alert' });
    const back = button('Back', () => box.close());
    const confirm = h('button' + (kind ? '.' + kind : '.primary'), { type: 'submit' }, yes);
    const form = h('form', {
      method: 'dialog',
      onsubmit: async (event) => {
        event.preventDefault();
        confirm.disabled = true;
        put(back, stop);
        put(fault, '');
        try {
          result = await act();
          box.close();
        } catch (e) {
          gone = is_gone(e) ? e : null;
          put(fault, e.message);
          confirm.disabled = false;
          put(back, 'Back');
          if (gone) {
            box.close();
          }
        }
      },
    }, h('h2', null, title), body, fault,
    h('p.buttons', null, back, confirm));
    const box = h('dialog', {
      'aria-label': title,
      onclose: () => {
        box.remove();
        gone ? reject(gone) : resolve(result);
      },
    }, form);
    document.body.append(box);
    box.showModal();
  });
}
