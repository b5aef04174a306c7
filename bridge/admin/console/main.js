// SPDX-License-Identifier: BSD-2-Clause
// main.js - selects the view and polls the daemon; the header and what it says.

import { ApiError, get, token } from './api.js';
import { redis_silence, show_banner } from './banner.js';
import { clock, put } from './dom.js';
import { count_unhealthy } from './health.js';
import { loginForm, refusal } from './login.js';
import { EACH_MS, model, refresh } from './model.js';
import { queueView } from './queues.js';
import { routesView } from './routes.js';
import { routeView } from './route.js';
import { statusView } from './status.js';

const main = document.getElementById('main');
const health = document.getElementById('health');
const unhealthy = document.getElementById('unhealthy');
const banner = document.getElementById('banner');
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

// #/ routes, #/status, #/route/NAME, #/queue/ROUTE/NAME
function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/');
  return { name: name || 'routes', argument: rest.map(decoded).join('/') };
}

const views = {
  routes: () => routesView(),
  status: () => statusView(),
  route: (name) => routeView(name),
  queue: (path) => queueView(path),
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
    const here = a.dataset.view === (['route', 'queue'].includes(name) ? 'routes' : name);
    here ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  });
  view = (Object.hasOwn(views, name) ? views[name] : views.routes)(argument);
  show_unhealthy();
  show(view.element);
  view.update(last_status);
}

function login(why) {
  stop();
  leave();
  put(health, '');
  health.className = '';
  banner.hidden = unhealthy.hidden = true;
  main.classList.remove('stale');
  const form = loginForm(why, start);
  show(form);
  form.querySelector('input').focus();
}

// --- the poll ---

// stale: the values shown are out of date.
function show_state(good, text, stale) {
  health.className = good ? 'good' : 'bad';
  put(health, text);
  main.classList.toggle('stale', stale);
}

function show_status(status) {
  const trouble = status.redis.filter((r) => !r.up || r.trouble).map((r) => `${r.name}: ${r.trouble || 'down'}`);
  const silent = redis_silence(status) !== '';
  show_state(status.ready && !trouble.length && !silent,
    status.stopping ? 'stopping' : silent ? 'Redis does not answer' : trouble.length ? trouble.join(', ')
      : status.ready ? 'ready' : 'not ready', false);
  health.title = `tarry ${status.version}, instance ${status.instance}`;
  show_banner(banner, status);
}

// The number of unhealthy routes, in the header and in the title of the tab.
function show_unhealthy() {
  const n = count_unhealthy([...model.routes.values()].map((seen) => seen.data));
  const { name, argument } = place();
  unhealthy.hidden = !n;
  put(unhealthy.firstChild, `${n} unhealthy`);
  put(unhealthy.lastChild, n === 1 ? ' route' : ' routes');
  document.title = (n ? `(${n}) ` : '') + (argument ? `${argument} – tarry` : 'tarry');
}

async function poll() {
  clearTimeout(timer);
  const mine = asking = new AbortController(), { signal } = mine;
  const late = setTimeout(() => mine.abort(new Error('late')), LATE_MS);
  try {
    const routes = refresh(signal);
    routes.catch(() => {}); // reported below
    const status = await get('/v1/admin/status', null, signal);
    if (asking === mine) {
      show_status(status); // at once, because the counts wait for Redis
      await routes;
    }
    if (asking !== mine) { // logged out meanwhile
      return;
    }
    [last_status, status_ms] = [status, Date.now()];
    show_unhealthy();
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
