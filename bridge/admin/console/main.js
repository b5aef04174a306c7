// SPDX-License-Identifier: BSD-2-Clause
// main.js - which view is shown, who is logged in, and when the daemon is asked.

import { ApiError, get, token } from './api.js';
import { clock, h, put } from './dom.js';
import { EACH_MS, look } from './model.js';
import { routesView } from './routes.js';
import { routeView } from './route.js';
import { statusView } from './status.js';

const main = document.getElementById('main');
const health = document.getElementById('health');
const logout = document.getElementById('logout');
const theme = document.getElementById('theme');

let view = null;    // { element, update(), leave() }
let timer = null;
let asking = null;  // aborts the requests of the poll that is on its way
let heard_ms = 0;
let running = false; // else somebody is to log in

// As it stands where it is no escape: somebody typed it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// #/ routes, #/status, #/route/NAME
function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/');
  return { name: name || 'routes', argument: rest.map(decoded).join('/') };
}

const views = {
  routes: () => routesView(),
  status: () => statusView(),
  route: (name) => routeView(name),
};

function show(element) {
  main.replaceChildren(element);
}

function leave() {
  view?.leave?.();
  view = null;
  document.querySelectorAll('dialog').forEach((box) => box.close());
}

function open() {
  leave();
  const { name, argument } = place();
  document.querySelectorAll('nav a').forEach((a) => {
    const here = a.dataset.view === (name === 'route' ? 'routes' : name);
    here ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  });
  view = (views[name] || views.routes)(argument);
  document.title = name === 'route' ? `${argument} – tarry` : 'tarry';
  show(view.element);
  view.update();
}

// --- the login ---

function login(why) {
  stop();
  leave();
  put(health, '');
  health.className = '';
  const field = h('input', { type: 'password', name: 'token', autocomplete: 'off', required: true,
                             spellcheck: 'false', id: 'token' });
  const fault = h('p.fault', { role: 'alert' }, why || '');
  const form = h('form.login', {
    onsubmit: async (event) => {
      event.preventDefault();
      token.set(field.value.trim());
      try {
        await get('/v1/admin/status');
        start();
      } catch (e) {
        token.forget();
        put(fault, refusal(e));
        field.select();
      }
    },
  }, h('h1', null, 'tarry'), h('label', { for: 'token' }, 'Token with the role admin'), field, fault,
  h('button.primary', { type: 'submit' }, 'Log in'),
  h('p.hint', null, 'It is kept in this tab until it is closed.'));
  show(form);
  field.focus();
}

function refusal(e) {
  return e.status === 401 ? 'The daemon does not know this token.'
    : e.status === 403 ? 'This token has not the role admin.' : e.message;
}

// --- the poll ---

function tell(good, text) {
  health.className = good ? 'good' : 'bad';
  put(health, text);
}

async function poll() {
  asking = new AbortController();
  const { signal } = asking;
  try {
    const [status] = await Promise.all([get('/v1/admin/status', null, signal), look(signal)]);
    heard_ms = Date.now();
    const trouble = status.redis.filter((r) => !r.up || r.trouble).map((r) => `${r.name}: ${r.trouble || 'down'}`);
    tell(status.ready && !trouble.length,
      status.stopping ? 'stopping' : trouble.length ? trouble.join(', ') : status.ready ? 'ready' : 'not ready');
    health.title = `tarry ${status.version}, instance ${status.instance}`;
    view?.update(status);
  } catch (e) {
    if (e.name === 'AbortError') {
      return;
    } else if (e instanceof ApiError && (e.status === 401 || e.status === 403)) {
      token.forget();
      login(e.status === 401 && e.word !== 'no-token' && heard_ms ? refusal(e) : e.status === 403 ? refusal(e) : '');
      return;
    }
    tell(false, e.message + (heard_ms ? ` Last heard of at ${clock(heard_ms).slice(11)}.` : ''));
    if (!(e instanceof ApiError)) {
      throw e;
    }
  } finally {
    if (asking && asking.signal === signal) {
      asking = null;
    }
  }
  plan();
}

function plan() {
  clearTimeout(timer);
  timer = document.hidden || !running ? null : setTimeout(poll, EACH_MS);
}

function stop() {
  clearTimeout(timer);
  asking?.abort();
  running = false;
  logout.hidden = true;
}

function start() {
  running = true;
  logout.hidden = !token.get();
  open();
  poll();
}

// --- the bar ---

function paint(name) {
  document.documentElement.dataset.theme = name;
  theme.setAttribute('aria-label', name === 'dark' ? 'Light' : 'Dark');
}

paint(localStorage.getItem('tarry-theme') ||
      (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
theme.addEventListener('click', () => {
  const name = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  localStorage.setItem('tarry-theme', name);
  paint(name);
});
logout.addEventListener('click', () => {
  token.forget();
  login();
});
window.addEventListener('hashchange', () => {
  if (running) {
    open();
  }
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && running && !asking) {
    poll();
  }
});
document.addEventListener('keydown', (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === '/' && !typing && !document.querySelector('dialog')) {
    const field = main.querySelector('input[type=search]');
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
});

start();
