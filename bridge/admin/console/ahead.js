// SPDX-License-Identifier: BSD-2-Clause
// ahead.js - the jobs that become due in the next hour, day or week, as bars and as a table.

import { get } from './api.js';
import { choice, clock, count, h, known, put, span, svg, whole } from './dom.js';
import { round } from './chart.js';
import { model } from './model.js';

const WIDTH = 600, HEIGHT = 110, TOP = 6, NAMED = 3;
const EACH_MS = 10000, COST_PART = 100; // the counts may take one part of the time of Redis
const SPANS = [['hour', 'Hour'], ['day', 'Day'], ['week', 'Week']];
let chosen = 'hour'; // on all pages, until the tab is closed

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const minute = (ms) => clock(ms).slice(11, 16);
const day_minute = (ms) => `${DAYS[new Date(ms).getDay()]} ${minute(ms)}`;
const jobs = (n) => (n === 1 ? '1 job' : `${whole(n)} jobs`);
const cost_text = (us) => (us < 10000 ? `${(us / 1000).toFixed(1)} ms` : span(us / 1000));
const part = (text, kind) => h(kind ? `span.${kind}` : 'span', null, text);
const total_of = (counts) => counts.reduce((all, n) => all + n, 0);

// Due jobs by what they wait for: [number, word, is an alarm]. A pause holds them, and in a queue they are ready.
function due_now(data) {
  const of = { overdue: data.total.overdue, paused: 0, ready: 0 };
  for (const r of data.routes) {
    const seen = model.routes.get(r.route)?.data;
    const word = seen?.queue ? 'ready' : seen?.state === 'paused' ? 'paused' : 'overdue';
    if (word !== 'overdue' && r.overdue) {
      of[word] += r.overdue;
      of.overdue -= r.overdue;
    }
  }
  const others = of.paused + of.ready > 0;
  return Object.entries(of).filter(([word, n]) => n || (word === 'overdue' && !others)).map(([word, n]) => [n, word, word === 'overdue' && n > 0]);
}

// route: '' for all. update(): asks the daemon at most every EACH_MS, less often if that costs Redis much.
export function aheadPicture(route) {
  const bars = svg('g'), grid = svg('g', { class: 'grid' });
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': 'Jobs due next',
                               preserveAspectRatio: 'none' }, grid, bars);
  const labels = h('div.labels', { 'aria-hidden': 'true' });
  const legend = h('p.legend'), when = h('span.when'), cost = h('span.cost');
  const spans = choice('Time ahead', SPANS, chosen, (name) => {
    chosen = name;
    load();
  });
  const numbers = h('tbody');
  const table = h('details.numbers', { ontoggle: () => fill() }, h('summary', null, 'As a table'),
    h('div.scroll', { tabindex: '0', role: 'group', 'aria-label': 'Jobs due, as a table' }, h('table', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Due from'), h('th.number', { scope: 'col' }, 'Jobs'))), numbers)));
  const element = h('figure.chart.ahead', { hidden: true },
    h('figcaption', null, h('b', null, 'Due next'), when, spans.element), legend,
    h('div.plot', null, picture, labels), h('div.below', null, table, cost));
  let data = null, each_ms = EACH_MS, asked_ms = 0, asking = null;

  const text_of = (ms) => (data.span === 'hour' ? minute(ms) : day_minute(ms));
  const from = (i) => data.from_ms + i * data.bin_ms;

  // "14:07–14:08 · 1,203 jobs: orders 1,000, mails 203"
  function describe(i) {
    const n = data.total.counts[i];
    const most = route ? [] : data.routes.map((r) => [r.route, r.counts?.[i]]).filter(([, some]) => some)
      .sort((a, b) => b[1] - a[1]);
    const named = most.slice(0, NAMED).map(([name, some]) => `${name} ${whole(some)}`).join(', ');
    put(when, `${text_of(from(i))}–${minute(from(i + 1))} · ${jobs(n)}${named && `: ${named}`}` +
      (most.length > NAMED ? ', …' : ''));
  }

  picture.addEventListener('pointermove', (event) => {
    if (!data.total.counts) {
      return;
    }
    const frame = picture.getBoundingClientRect(), n = data.total.counts.length;
    describe(Math.min(n - 1, Math.max(0, Math.floor((n * (event.clientX - frame.left)) / frame.width))));
  });
  picture.addEventListener('pointerleave', () => put(when, ''));

  function draw_axes(top) {
    const y = (part) => HEIGHT - 1 - (HEIGHT - 1 - TOP) * part, n = data.total.counts.length;
    const label = (text, kind, side, part) => {
      const one = h('span.' + kind, null, text);
      one.style[side] = `${100 * part}%`;
      return one;
    };
    grid.replaceChildren(...[0, 0.5, 1].map((part) => svg('line', { x1: 0, x2: WIDTH, y1: y(part), y2: y(part) })));
    labels.replaceChildren(
      ...[0, 0.5, 1].map((part) => label(part ? count(top * part) : '0', 'tick', 'top', y(part) / HEIGHT)),
      ...[0, 0.25, 0.5, 0.75, 1].map((part) => label(part ? text_of(from(n * part)) : 'now', 'time', 'left', part)));
  }

  function draw_bars(counts, top) {
    const n = counts.length, wide = WIDTH / n, high = HEIGHT - 1 - TOP;
    bars.replaceChildren(...counts.flatMap((v, i) => (v ? [svg('rect', {
      x: (i * wide).toFixed(2), width: Math.max(wide - (n > 100 ? 0.4 : 1.2), 0.6).toFixed(2),
      y: (HEIGHT - 1 - Math.max((high * v) / top, 1.5)).toFixed(1), height: Math.max((high * v) / top, 1.5).toFixed(1) })] : [])));
  }

  // The numbers as a sentence.
  function describe_all({ counts, later, held, uncounted }, of) {
    const peak = counts.indexOf(Math.max(...counts)), all = total_of(counts);
    return `Jobs due in the next ${data.span}${of}: ${whole(all)}` +
      `${all ? `, most of them at ${text_of(from(peak))}: ${whole(counts[peak])}` : ''}; ` +
      `${due_now(data).map(([n, word]) => `${known(n)} ${word}`).join(', ')}, ${known(later)} later` +
      (held ? `, ${known(held)} held` : '') + (uncounted ? `; ${uncounted} routes are not counted` : '');
  }

  function draw() {
    const { counts } = data.total;
    if (!counts) { // Redis does not answer, or another route counts the same queues
      const where = data.routes[0]?.counted_with;
      bars.replaceChildren();
      legend.replaceChildren(part(route && where ? `counted at ${where}` : 'unknown'));
      picture.setAttribute('aria-label', `Jobs due in the next ${data.span}${route && ` of ${route}`}: unknown`);
      return;
    }
    const top = round(Math.max(10, ...counts));
    draw_axes(top);
    draw_bars(counts, top);
    tell();
    fill();
  }

  // The numbers; also after each poll, because it contains why due jobs do not leave.
  function tell() {
    const { counts, later, held, uncounted } = data.total, text = describe_all(data.total, route && ` of ${route}`);
    if (picture.getAttribute('aria-label') === text) {
      return;
    }
    picture.setAttribute('aria-label', text);
    legend.replaceChildren(h('span', null, h('b', null, count(total_of(counts))), ` in the next ${data.span}`),
      ...due_now(data).map(([n, word, alarm]) => part(`${known(n)} ${word}`, alarm ? 'alarm' : '')), part(`${known(later)} later`),
      held ? part(`${known(held)} held`) : '',
      uncounted ? part(uncounted === 1 ? '1 route is not counted' : `${uncounted} routes are not counted`, 'alarm') : '');
  }

  function fill() {
    if (data?.total.counts && table.open) {
      numbers.replaceChildren(...data.total.counts.flatMap((n, i) => (n ? [h('tr', null,
        h('th', { scope: 'row' }, `${text_of(from(i))}–${minute(from(i + 1))}`), h('td.number', null, whole(n)))] : [])));
    }
  }

  async function load() {
    asking?.abort();
    const mine = asking = new AbortController();
    asked_ms = Date.now();
    try {
      data = await get('/v1/admin/ahead', { span: chosen, route }, mine.signal);
      element.hidden = false;
      spans.choose(data.span);
      draw();
      each_ms = Math.max(EACH_MS, (COST_PART * data.redis_us) / 1000);
      put(cost, data.age_ms === null ? '' : `counted at ${clock(Date.now() - data.age_ms).slice(11)}; ` +
        `${cost_text(data.redis_us)} of Redis every ${span(each_ms)}`);
    } catch (e) {
      if (e.name !== 'AbortError') { // a daemon that does not know it, or Redis does not answer
        put(cost, data ? `${e.message} These are the numbers of ${clock(data.now_ms).slice(11)}.` : '');
      }
    }
  }

  function update() {
    if (Date.now() - asked_ms >= each_ms) {
      load();
    } else if (data?.total.counts) {
      tell();
    }
  }
  return { element, update, leave: () => asking?.abort() };
}
