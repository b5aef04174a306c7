// SPDX-License-Identifier: BSD-2-Clause
// chart.js - lines over the last minutes, drawn as SVG; and sparklines for a row of a table.

import { h, svg, put, clock, span } from './dom.js';

const WIDTH = 600, HEIGHT = 150, LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 20;
export const SPAN_MS = 15 * 60 * 1000; // at most
const LEAST_MS = 2 * 60 * 1000;

// As long as there are figures.
function span_of(times, now) {
  return Math.min(SPAN_MS, Math.max(LEAST_MS, times.length ? now - times[0] : 0));
}

// The least round number that is not below n: 1, 2 or 5, and zeros.
function round(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * power).find((r) => r >= n * 0.999);
}

// Draws from the first point that is known to the last; a gap where one is null.
function path(times, values, x, y) {
  let text = '', pen = false;
  for (let i = 0; i < values.length; i++) {
    if (values[i] === null) {
      pen = false;
      continue;
    }
    text += `${pen ? 'L' : 'M'}${x(times[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
    pen = true;
  }
  return text;
}

// lines: [{ key, label, area }]; show: a value as text; least: of the greatest value of the axis.
// update(history, now) draws: history has times and an array of each key.
export function chart(title, lines, show, least) {
  const grid = svg('g', { class: 'grid' }), drawn = svg('g'), cross = svg('line', { class: 'cross', y1: TOP });
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', preserveAspectRatio: 'none' },
    grid, drawn, cross);
  const values = lines.map((line, i) => h('span.value.line' + i, null));
  const legend = h('p.legend', null, lines.map((line, i) =>
    h('span', null, h('i.swatch.line' + i), line.label + ' ', values[i])));
  const when = h('span.when');
  const labels = h('div.labels', { 'aria-hidden': 'true' });
  const box = h('figure.chart', null, h('figcaption', null, h('b', null, title), when), legend,
    h('div.plot', null, picture, labels));
  let history = null, now = 0, wide = LEAST_MS, at = null;

  const x = (t) => LEFT + (WIDTH - LEFT - RIGHT) * (1 - (now - t) / wide);

  function label(text, left, top, kind) {
    const one = h('span.' + kind, null, text);
    one.style.left = `${(100 * left) / WIDTH}%`;
    one.style.top = `${(100 * top) / HEIGHT}%`;
    return one;
  }

  function tell() {
    const n = history.times.length;
    const i = at === null ? n - 1 : at;
    lines.forEach((line, k) => put(values[k], n && history[line.key][i] !== null ? show(history[line.key][i]) : '–'));
    put(when, at === null || !n ? '' : clock(history.times[i]).slice(11));
    cross.setAttribute('visibility', at === null ? 'hidden' : 'visible');
    if (at !== null && n) {
      cross.setAttribute('x1', x(history.times[i]));
      cross.setAttribute('x2', x(history.times[i]));
      cross.setAttribute('y2', HEIGHT - BOTTOM);
    }
  }

  picture.addEventListener('pointermove', (event) => {
    if (!history || !history.times.length) {
      return;
    }
    const frame = picture.getBoundingClientRect();
    const t = now - wide * (1 - ((event.clientX - frame.left) / frame.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT));
    at = history.times.reduce((best, time, i) =>
      (Math.abs(time - t) < Math.abs(history.times[best] - t) ? i : best), 0);
    tell();
  });
  picture.addEventListener('pointerleave', () => {
    at = null;
    if (history) {
      tell();
    }
  });

  function update(newHistory, newNow) {
    [history, now] = [newHistory, newNow];
    wide = span_of(history.times, now);
    const all = lines.flatMap((line) => history[line.key]).filter((v) => v !== null);
    const top = round(Math.max(least, ...all)), y = (v) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - v / top);
    grid.replaceChildren(...[0, 0.5, 1].map((part) =>
      svg('line', { x1: LEFT, x2: WIDTH - RIGHT, y1: y(top * part), y2: y(top * part) })));
    labels.replaceChildren(...[0, 0.5, 1].map((part) => label(show(top * part), LEFT, y(top * part), 'tick')),
      ...[1, 2 / 3, 1 / 3].map((part) => wide * part).map((ms) =>
        label('−' + span(Math.round(ms / 10000) * 10000), x(now - ms), HEIGHT - BOTTOM, ms === wide ? 'time.first' : 'time')),
      label('now', WIDTH - RIGHT, HEIGHT - BOTTOM, 'time.last'));
    drawn.replaceChildren(...lines.flatMap((line, i) => {
      const d = path(history.times, history[line.key], x, y);
      const known = history[line.key].findIndex((v) => v !== null);
      const stroke = svg('path', { d, class: `stroke line${i}` });
      if (!line.area || !d || history[line.key].slice(known).includes(null)) {
        return [stroke];
      }
      const floor = HEIGHT - BOTTOM, last = history.times[history.times.length - 1];
      return [svg('path', { d: `${d}L${x(last)} ${floor}L${x(history.times[known])} ${floor}Z`,
                            class: `area line${i}` }), stroke];
    }));
    picture.setAttribute('aria-label', `${title}: ` + lines.map((line) => {
      const value = history[line.key][history.times.length - 1];
      return `${line.label} ${value === null || value === undefined ? 'not known' : show(value)}`;
    }).join(', '));
    tell();
  }
  return { element: box, update };
}

// A line without axes; its greatest value is the top.
export function sparkline() {
  const stroke = svg('path', { class: 'stroke line0' });
  const picture = svg('svg', { viewBox: '0 0 100 20', class: 'spark', 'aria-hidden': 'true',
                               preserveAspectRatio: 'none' }, stroke);
  function update(times, values, now) {
    const top = Math.max(1, ...values.filter((v) => v !== null));
    stroke.setAttribute('d', path(times, values, (t) => 100 * (1 - (now - t) / span_of(times, now)), (v) => 19 - (18 * v) / top));
  }
  return { element: picture, update };
}
