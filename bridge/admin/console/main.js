// SPDX-License-Identifier: BSD-2-Clause
// main.js - selects the view, handles the login and polls the daemon.

import { ApiError, get, token } from './api.js';
import { clock, h, put } from './dom.js';
import { EACH_MS, refresh } from './model.js';
import { routesView } from './routes.js';
import { routeView } from './route.js';
import { statusView } from './status.js';

const main = document.getElementById('main');
const health = document.getElementById('health');
const logout = document.getElementById('logout');
const theme = document.getElementById('theme');

let view = null;    // { element, update(), leave() }
let timer = null;
let asking = null;  // aborts the requests of the running poll
let last_status = null;   // the last status received
let status_ms = 0;
const LATE_MS = 10000; // timeout of a poll
let running = false; // false: the login is shown

// Return text that is not URL-encoded unchanged: the user may have typed it.
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
  view = (Object.hasOwn(views, name) ? views[name] : views.routes)(argument);
  document.title = name === 'route' ? `${argument} – tarry` : 'tarry';
  show(view.element);
  view.update(last_status);
}

// --- the login ---

function login(why) {
  stop();
  leave();
  put(health, '');
  health.className = '';
  main.classList.remove('stale');
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
  h('p.hint', null, 'The token is stored until this tab is closed.'));
  show(form);
  field.focus();
}

const REFUSALS = {
  'no-token': '', // no token entered yet
  'bad-token': 'Unknown token.',
  'no-role': 'This token does not have the role admin.',
};
const refusal = (e) => (Object.hasOwn(REFUSALS, e.word) ? REFUSALS[e.word] : e.message);

// --- the poll ---

// stale: the values shown are out of date.
function show_state(good, text, stale) {
  health.className = good ? 'good' : 'bad';
  put(health, text);
  main.classList.toggle('stale', stale);
}

async function poll() {
  clearTimeout(timer);
  const mine = asking = new AbortController(), { signal } = mine;
  const late = setTimeout(() => mine.abort(new Error('late')), LATE_MS);
  try {
    const [status] = await Promise.all([get('/v1/admin/status', null, signal), refresh(signal)]);
    if (asking !== mine) { // logged out meanwhile
      return;
    }
    [last_status, status_ms] = [status, Date.now()];
    const trouble = status.redis.filter((r) => !r.up || r.trouble).map((r) => `${r.name}: ${r.trouble || 'down'}`);
    show_state(status.ready && !trouble.length,
      status.stopping ? 'stopping' : trouble.length ? trouble.join(', ') : status.ready ? 'ready' : 'not ready', false);
    health.title = `tarry ${status.version}, instance ${status.instance}`;
    view?.update(status);
  } catch (e) {
    if (e.name === 'AbortError') {
      return;
    } else if (e instanceof ApiError && (e.status === 401 || e.status === 403)) {
      token.forget();
      login(refusal(e));
      return;
    }
    show_state(false, e.message + (status_ms ? ` Last response at ${clock(status_ms).slice(11)}.` : ''), true);
    if (!(e instanceof ApiError)) {
      throw e;
    }
  } finally {
    clearTimeout(late);
    if (asking === mine) {
      asking = null;
      plan();
    }
  }
}

function plan() {
  clearTimeout(timer);
  timer = document.hidden || !running ? null : setTimeout(poll, EACH_MS);
}

function stop() {
  clearTimeout(timer);
  asking?.abort();
  asking = null;
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
  theme.title = name === 'dark' ? 'Light colours' : 'Dark colours';
  theme.setAttribute('aria-label', theme.title);
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
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
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
