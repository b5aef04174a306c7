// SPDX-License-Identifier: BSD-2-Clause
// chart.js - lines over the past, drawn as SVG; and sparklines for a row of a table.

import { h, svg, put, clock, span } from './dom.js';

const WIDTH = 600, HEIGHT = 130, TOP = 6, FLOOR = HEIGHT - 1, SPARK_POINTS = 60;
// The axis grows in steps: an axis that moves all the time cannot be read.
const SPANS_MS = [3, 6, 15].map((minutes) => minutes * 60000);
export const SPAN_MS = SPANS_MS.at(-1);
const DAY_MS = 864e5;

function span_of(times, now) {
  return SPANS_MS.find((ms) => !times.length || now - times[0] <= ms) || SPAN_MS;
}

// Return the smallest of 1, 2 or 5 times a power of ten that is at least n.
export function round(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * power).find((r) => r >= n * 0.999);
}

// Likewise for ms, in units of time.
const ROUND_MS = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 1e4, 2e4, 6e4, 12e4, 6e5, 12e5, 36e5, 72e5, 432e5, 864e5];
export const round_ms = (ms) => ROUND_MS.find((r) => r >= ms * 0.999) || round(ms / 864e5) * 864e5;

// Split the points at gaps (null values).
function parts_of(times, values, x, y) {
  const parts = [];
  values.forEach((value, i) => {
    if (value === null) {
      return;
    } else if (!i || values[i - 1] === null) {
      parts.push([]);
    }
    parts.at(-1).push(`${x(times[i]).toFixed(1)} ${y(value).toFixed(1)}`);
  });
  return parts;
}

const line_of = (parts) => parts.map((p) => `M${p.join('L')}${p.length > 1 ? '' : 'h0'}`).join('');
const area_of = (parts) => parts.map((p) => `M${p[0].split(' ')[0]} ${FLOOR}L${p.join('L')}V${FLOOR}Z`).join('');

// lines: [{ key, label, area }]; show(value): returns its text; least: minimum of the top value of the axis;
// rounded(n): rounds that value up. update(history, now, { wide, marks }) draws; history: times, and an array for
// each key; wide: ms shown, else as long as the history; marks: [{ at_ms, text }], events on the axis of time.
export function chart(title, lines, show, least, rounded = round) {
  const grid = svg('g', { class: 'grid' }), drawn = svg('g'), flags = svg('g', { class: 'flags' });
  const cross = svg('line', { class: 'cross', y1: TOP, y2: FLOOR, visibility: 'hidden' });
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': title, preserveAspectRatio: 'none' },
    grid, flags, drawn, cross);
  const values = lines.map((line, i) => h('span.value.line' + i, null));
  const names = lines.map((line, i) => h('span', null, h('i.swatch.line' + i), line.label + ' ', values[i]));
  const legend = h('p.legend', null, names);
  const when = h('span.when');
  const labels = h('div.labels', { 'aria-hidden': 'true' });
  const box = h('figure.chart', null, h('figcaption', null, h('b', null, title), when), legend,
    h('div.plot', null, picture, labels));
  let history = null, now = 0, wide = SPANS_MS[0], marks = [], at = null;

  const x = (t) => WIDTH * (1 - (now - t) / wide);

  function label(text, kind, side, part) {
    const one = h('span.' + kind, null, text);
    one.style[side] = `${100 * part}%`;
    return one;
  }

  // The time, with the events that are drawn near to it.
  function when_text(t) {
    const near = marks.filter((m) => Math.abs(m.at_ms - t) < wide / 60).map((m) => m.text);
    return [clock(t).slice(wide > DAY_MS / 2 ? 5 : 11), ...near].join(' · ');
  }

  function describe() {
    const n = history.times.length;
    at = at !== null && at < n ? at : null; // the history may have become shorter
    const i = at === null ? n - 1 : at;
    lines.forEach((line, k) => put(values[k], n && history[line.key][i] !== null ? show(history[line.key][i]) : '–'));
    put(when, at === null ? '' : when_text(history.times[i]));
    cross.setAttribute('visibility', at === null ? 'hidden' : 'visible');
    if (at !== null) {
      cross.setAttribute('x1', x(history.times[i]));
      cross.setAttribute('x2', x(history.times[i]));
    }
  }

  picture.addEventListener('pointermove', (event) => {
    if (!history || !history.times.length) {
      return;
    }
    const frame = picture.getBoundingClientRect();
    const t = now - wide * (1 - (event.clientX - frame.left) / frame.width);
    at = history.times.reduce((best, time, i) =>
      (Math.abs(time - t) < Math.abs(history.times[best] - t) ? i : best), 0);
    describe();
  });
  picture.addEventListener('pointerleave', () => {
    at = null;
    if (history) {
      describe();
    }
  });

  function draw_axes(top, y) {
    const tick = (value) => (value ? show(value).replace(/\.0+\b/, '') : '0');
    grid.replaceChildren(...[0, 0.5, 1].map((part) =>
      svg('line', { x1: 0, x2: WIDTH, y1: y(top * part), y2: y(top * part) })));
    labels.replaceChildren(...[0, 0.5, 1].map((part) => label(tick(top * part), 'tick', 'top', y(top * part) / HEIGHT)),
      ...[1, 2 / 3, 1 / 3].map((part) => label(`−${span(wide * part)}`, 'time', 'left', 1 - part)),
      label('now', 'time', 'left', 1));
    flags.replaceChildren(...marks.map((m) => svg('line', { x1: x(m.at_ms), x2: x(m.at_ms), y1: TOP, y2: FLOOR })));
  }

  function update(newHistory, newNow, more = {}) {
    [history, now] = [newHistory, newNow];
    wide = more.wide || span_of(history.times, now);
    marks = (more.marks || []).filter((m) => m.at_ms > now - wide);
    names.forEach((name, i) => (name.hidden = i > 0 && history[lines[i].key].every((v) => v === null)));
    const all = lines.flatMap((line) => history[line.key]).filter((v) => v !== null);
    const top = rounded(Math.max(least, ...all)), y = (v) => FLOOR - ((FLOOR - TOP) * v) / top;
    draw_axes(top, y);
    drawn.replaceChildren(...lines.flatMap((line, i) => {
      const parts = parts_of(history.times, history[line.key], x, y);
      const stroke = svg('path', { d: line_of(parts), class: `stroke line${i}` });
      return line.area ? [svg('path', { d: area_of(parts), class: `area line${i}` }), stroke] : [stroke];
    }));
    picture.setAttribute('aria-label', `${title}: ` + lines.map((line) => {
      const value = history[line.key].at(-1);
      return `${line.label} ${value === null || value === undefined ? 'unknown' : show(value)}`;
    }).join(', '));
    describe();
  }
  return { element: box, update };
}

// A line without axes, scaled to its greatest value. It shows only some of the points.
export function sparkline() {
  const stroke = svg('path', { class: 'stroke line0' });
  const picture = svg('svg', { viewBox: '0 0 100 20', class: 'spark', 'aria-hidden': 'true',
                               preserveAspectRatio: 'none' }, stroke);
  function update(times, values, now, given_wide) {
    const wide = given_wide || span_of(times, now), top = Math.max(1, ...values), step = Math.ceil(times.length / SPARK_POINTS);
    const some = (all) => all.filter((_, i) => (all.length - 1 - i) % step === 0);
    stroke.setAttribute('d', line_of(parts_of(some(times), some(values), (t) => 100 * (1 - (now - t) / wide),
                                              (v) => 19 - (18 * v) / top)));
  }
  return { element: picture, update };
}
