// SPDX-License-Identifier: BSD-2-Clause
// bulk.js - one operation on all jobs or dead letters that match a filter, page by page. The dialog counts the
// matches first, then shows the progress and can stop.

import { ask, segment } from './api.js';
import { dialog, h, put, toast, whole } from './dom.js';

const STEP = 500;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const things = (n, [one, many]) => (n === 1 ? `1 ${one}` : `${whole(n)} ${many}`);
const LETTERS = ['dead letter', 'dead letters'], JOBS = ['job', 'jobs'];

// Request all pages. paced: the daemon spreads the due times itself; else this function sends at most `rate` per
// second. report(sum): called after each page; is_over(): true stops. Returns the sum.
async function run(path, params, { rate, paced, dry }, report, is_over) {
  const sum = { done: 0, refused: 0, in_flight: 0, skipped: 0 }, begun = Date.now();
  let cursor = null, not_before = null;
  do {
    const max = rate && !paced && !dry ? Math.max(1, Math.min(STEP, Math.ceil(rate))) : STEP;
    const page = await ask('POST', path, { ...params, max, cursor, not_before, dry_run: dry || null,
                                           rate: paced && !dry ? rate : null });
    Object.keys(sum).forEach((what) => (sum[what] += page[what] || 0));
    cursor = page.cursor;
    not_before = paced && rate && !dry ? page.not_before : null;
    report(sum);
    if (cursor && rate && !paced && !dry) {
      await sleep(Math.max(0, begun + (1000 * sum.done) / rate - Date.now()));
    }
  } while (cursor && !is_over());
  return sum;
}

const NOTES = [
  ['refused', 'refused (replays_max reached, or no route)'],
  ['in_flight', 'in flight'],
  ['skipped', 'left meanwhile'],
];
const with_notes = (text, sum) => [text, ...NOTES.filter(([what]) => sum[what]).map(([what, note]) =>
  `${whole(sum[what])} ${note}`)].join(', ');

function rate_field() {
  const field = h('input', { name: 'rate', type: 'number', min: '0.001', max: '1000000', step: 'any',
                             placeholder: 'all at once', id: 'rate' });
  return { field, label: h('label', { for: 'rate' }, 'Per second') };
}

// what: { path, label, done, kind, why, noun: [one, many], paced, has_rate, fields: elements or null, more(): further
// parameters, or throws; counting: parameters of the count }; title; filters: parameters of the API; spoken: the same as text. finished(): something was
// changed.
export async function bulk(title, what, filters, spoken, finished) {
  const found = h('p', { role: 'status' }, 'Counting…');
  const bar = h('progress', { 'aria-label': 'Progress', hidden: true });
  const rate = what.has_rate ? rate_field() : null;
  const fields = h('div.fields', { hidden: !rate && !what.fields }, what.fields, rate && [rate.label, rate.field]);
  const body = h('div', null, found, bar, h('p', null, spoken ? `Only: ${spoken}.` : 'No filter is set: this applies to all.'),
    h('p', null, what.why), fields);
  const report = (text) => (s) => put(found, with_notes(`${things(s.done, what.noun)} ${text}`, s));
  let over = false, sum = null; // sum: of changed items, not of counted ones
  const count_first = { dry: true, paced: what.paced };
  const counted = run(what.path, { ...filters, ...what.counting }, count_first, report(`would be ${what.done} so far`),
    () => over).then((s) => {
    report(`will be ${what.done}`)(s);
    return s;
  });
  counted.catch((e) => put(found, e.message));
  try {
    await dialog(title, body, what.label, async () => {
      const more = what.more ? what.more() : {}, all = await counted;
      bar.hidden = false;
      bar.max = Math.max(1, all.done + all.in_flight);
      bar.value = 0;
      await run(what.path, { ...filters, ...more }, { rate: rate?.field.value ? Number(rate.field.value) : null, paced: what.paced },
        (s) => {
          sum = { ...s };
          bar.value = s.done + s.in_flight;
          report(`${what.done} so far`)(s);
        }, () => over);
    }, what.kind, 'Stop');
  } catch (e) {
    toast(e.message, true);
  }
  over = true;
  if (sum) { // also if the dialog was closed before the end
    toast(with_notes(`${things(sum.done, what.noun)} ${what.done}`, sum));
    finished();
  }
}

// --- the operations ---

export function move_fields() {
  const after = h('input', { name: 'after', placeholder: '30m', id: 'after', spellcheck: 'false', autocomplete: 'off' });
  const at = h('input', { name: 'at', type: 'datetime-local', step: '1', id: 'at' });
  return { elements: [h('label', { for: 'after' }, 'Delay from now'), after, h('label', { for: 'at' }, 'or at (your time)'), at],
           read: () => {
             const how = { after: after.value.trim(), at: at.value && new Date(at.value).toISOString() };
             if (!how.after === !how.at) {
               throw new Error('Enter either a delay, such as 30m or 1h30m, or a time.');
             }
             return how;
           } };
}

// title(of): of: the queue or the route.
const OF_JOBS = {
  now: { label: 'Run now', title: (of) => `Run jobs of ${of} now?`, done: 'run now', why: 'They become due at once.' },
  move: { label: 'Move', title: (of) => `Move jobs of ${of}?`, done: 'moved', why: 'They become due at another time.',
          counting: { after: '0s' } },
  cancel: { label: 'Cancel the jobs', title: (of) => `Cancel jobs of ${of}?`, done: 'cancelled', kind: 'danger',
            why: 'They will not be delivered.' },
  stop: { label: 'Stop retrying', title: (of) => `Stop retrying jobs of ${of}?`, done: 'cancelled', kind: 'danger', path: 'cancel',
          why: 'Their deliveries are in progress and cannot be stopped. If one fails, tarry does not retry it.' },
  purge: { label: 'Purge', title: (of) => `Purge ${of}?`, done: 'deleted', kind: 'danger', path: 'cancel',
           why: 'All ready and delayed jobs are deleted permanently. Jobs in flight stay.' },
};

// spoken: the filters as text; '' for all.
export function bulkJobs(name, what, filters, spoken, finished) {
  const row = OF_JOBS[what], fields = what === 'move' ? move_fields() : null;
  return bulk(row.title(filters.queue || name),
    { ...row, path: `/v1/admin/routes/${segment(name)}/jobs/${row.path || what}`, noun: JOBS, has_rate: true, paced: false,
      fields: fields?.elements, more: fields?.read }, filters, spoken, finished);
}

const OF_DEAD = {
  replay: { label: 'Replay', done: 'replayed', has_rate: true,
            why: 'They become due again, at once or at the given rate.' },
  drop: { label: 'Drop', done: 'dropped', kind: 'danger', why: 'They are deleted permanently.' },
};

export function bulkDead(name, what, filters, spoken, finished) {
  const row = OF_DEAD[what];
  return bulk(`${row.label} dead letters of ${filters.queue || name}?`,
    { ...row, path: `/v1/routes/${segment(name)}/dead/${what}`, noun: LETTERS, paced: true }, filters, spoken, finished);
}
