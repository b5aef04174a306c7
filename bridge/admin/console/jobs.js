// SPDX-License-Identifier: BSD-2-Clause
// jobs.js - the pending and in-flight jobs of a route: lists and shows them, runs them now, moves and
// cancels them.

import { ask, get, idSegment, post, segment } from './api.js';
import { button, dialog, fromNow, h, is_gone, size, toast } from './dom.js';
import { now } from './model.js';
import { facts, moment, pages } from './pages.js';

const PAGE = 50, PAYLOAD_SHOWN = 64 * 1024;

// --- one job ---

function bytes_of(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

// 00000000  68 65 6c 6c 6f ...  hello
function dump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length && at < 4096; at += 16) {
    const part = [...bytes.slice(at, at + 16)];
    lines.push(at.toString(16).padStart(8, '0') + '  ' +
      part.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(49) +
      part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join(''));
  }
  return lines.join('\n') + (bytes.length > 4096 ? `\n… ${size(bytes.length)} in all` : '');
}

function payload(job) {
  let text, note = '';
  if (job.payload_base64 !== undefined) {
    const bytes = bytes_of(job.payload_base64);
    [text, note] = [dump(bytes), `${size(bytes.length)}, not text`];
  } else if (job.payload === null) {
    note = 'none (null)';
  } else {
    text = job.payload;
    note = size(new TextEncoder().encode(text).length);
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
      note += ', JSON';
    } catch {
      // no JSON: show the text unchanged
    }
  }
  const cut = text && text.length > PAYLOAD_SHOWN;
  return [h('h3', null, 'Payload ', h('small', null, note)),
          text ? h('pre', { tabindex: '0' }, cut ? text.slice(0, PAYLOAD_SHOWN) : text) : null,
          cut ? h('p.hint', null, `The first ${size(PAYLOAD_SHOWN)} of it.`) : null];
}

function headers(job) {
  const base64 = (v) => (v === null ? v : `${v} (base64)`);
  const rows = [[job.headers, (v) => v], [job.headers_base64, base64]].flatMap(([some, shown]) =>
    Object.entries(some || {}).flatMap(([name, value]) => [value].flat().map((v) => [name, shown(v)])));
  return rows.length ? [h('h3', null, 'Headers'), facts(rows)] : [];
}

// What a source stored for a job, except its key.
export const content = (job) => [...headers(job), ...payload(job)].filter(Boolean);

export const key_of = (job) => (job.key_base64 !== undefined ? `${job.key_base64} (base64)` : job.key ?? '');

async function moveDialog(path, id, queue) {
  const after = h('input', { name: 'after', placeholder: '30m', id: 'after', spellcheck: 'false', autocomplete: 'off' });
  const at = h('input', { name: 'at', type: 'datetime-local', step: '1', id: 'at' });
  const body = h('div.fields', null, h('label', { for: 'after' }, 'Delay from now'), after,
    h('label', { for: 'at' }, 'or at (your time)'), at);
  return dialog(`Move ${id}`, body, 'Move', () => {
    const how = { after: after.value.trim(), at: at.value && new Date(at.value).toISOString() };
    if (!how.after === !how.at) {
      throw new Error('Enter either a delay, such as 30m or 1h30m, or a time.');
    }
    return post(`${path}/move`, { ...how, queue });
  });
}

// The buttons for one job. done(): reload the list.
function actions(name, job, queue, done) {
  const path = () => `/v1/admin/routes/${segment(name)}/jobs/${idSegment(job)}`;
  const due_text = (moved) => `${job.id}: due ${fromNow(moved.due_ms, now())}` +
    (moved.held ? ', waiting behind other jobs of its key' : '');
  const tried = (act) => async () => {
    try {
      const text = await act();
      if (text) {
        toast(text);
        done();
      }
    } catch (e) {
      toast(`${job.id}: ${e.message}`, true);
      if (is_gone(e) || e.status === 409) { // the job has changed or left meanwhile
        done();
      }
    }
  };
  const runNow = tried(async () => due_text(await post(`${path()}/now`, { queue })));
  const move = tried(async () => {
    const moved = await moveDialog(path(), job.id, queue);
    return moved && due_text(moved);
  });
  const cancel = tried(() => dialog(`Cancel ${job.id}?`, h('p', null, 'It will not be delivered.'),
    'Cancel the job', async () => {
      await ask('DELETE', path().replace('/admin', ''));
      return `${job.id} is cancelled.`;
    }, 'danger'));
  // The running delivery may succeed. If it fails, the job gets no further attempt.
  const end = tried(() => dialog(`Stop retrying ${job.id}?`,
    h('p', null, 'A delivery is in progress and cannot be stopped. If it fails, tarry does not retry it.'),
    'Stop retrying', async () => {
      await ask('DELETE', path().replace('/admin', '')).catch((e) => {
        if (e.word !== 'in-flight') {
          throw e;
        }
      });
      return `tarry will not retry ${job.id}.`;
    }, 'danger'));
  if (!job.named || (queue && job.state === 'in-flight')) {
    return null;
  } else if (job.state === 'in-flight') {
    return h('p.buttons', null, button('Stop retrying…', end, 'danger'));
  } else if (job.state !== 'waiting' && job.state !== 'held') {
    return null;
  }
  return h('p.buttons', null, button('Run now', runNow), button('Move…', move),
    queue ? null : button('Cancel job…', cancel, 'danger'));
}

function note_of(job) {
  const notes = [
    [job.gone, 'It is gone: delivered, cancelled or expired.'],
    [job.state === 'dead', 'It has become a dead letter.'],
    [job.unreadable, 'Its record cannot be read by this version of tarry.'],
    [!job.named, 'A Kafka record due later than redis.horizon: it has no id until shortly before it is due.'],
  ];
  return notes.find(([is]) => is)?.[1];
}

function head(name, job, queue, done) {
  return [h('h2.id', null, job.id), actions(name, job, queue, done),
          facts([['State', job.state + (job.far && !job.gone ? ', far' : '')], ['Note', note_of(job)],
                 ['Due', moment(job.due_ms)], ['Lease expires', moment(job.lease_ends_ms)], ['Attempts', String(job.attempts)],
                 ['Last error', job.last_error], ['Target', job.target], ['Key', key_of(job)], ['Source', job.source],
                 ['Record', job.bytes === undefined ? '' : size(job.bytes)]])].filter(Boolean);
}

// Merge the listed job with its current state. The API of one job returns "waiting" for held jobs, too.
function renewed(job, full) {
  const state = full.state === 'waiting' && job.state === 'held' ? 'held' : full.state;
  return { ...job, state, due_ms: full.due ? Date.parse(full.due) : job.due_ms, attempts: full.attempts,
           last_error: full.last_error, lease_ends_ms: state === job.state ? job.lease_ends_ms : null };
}

// Refreshed while it is open: others may cancel or move the job, and it becomes due.
function detail(name, job, queue, done) {
  const top = h('div'), rest = h('div');
  const element = h('div', null, top, rest);
  let current = job, read = false;

  function draw(now_it_is) {
    const held = top.contains(document.activeElement);
    current = now_it_is;
    top.replaceChildren(...head(name, current, queue, done));
    if (held) {
      element.closest('.drawer')?.querySelector('button').focus();
    }
  }

  async function refresh() {
    try {
      const full = await get(`/v1/routes/${segment(name)}/jobs/${idSegment(job)}`);
      const it = renewed(current, full);
      if (['state', 'due_ms', 'attempts'].some((what) => it[what] !== current[what])) {
        draw(it);
      }
      if (!read) {
        rest.replaceChildren(...content(full));
        read = true;
      }
    } catch (e) {
      if (is_gone(e)) {
        draw({ ...current, state: 'gone', gone: true, due_ms: null, lease_ends_ms: null });
      }
      if (!read) {
        rest.replaceChildren(h('p.fault', null, is_gone(e) ? '' : e.message));
      }
    }
  }

  draw(job);
  if (queue || !job.named) {
    return { element };
  }
  rest.append(h('p.hint', null, 'Loading…'));
  refresh();
  return { element, refresh: () => current.gone || refresh() };
}

// --- the list ---

// Read a complete id directly, which is faster than a search by prefix. Returns null if there is no such job.
// Other ids with this prefix follow.
const BEHIND_EXACT = 'behind the one of that very id';
async function exactly(name, id, state, signal) {
  try {
    const job = await get(`/v1/routes/${segment(name)}/jobs/${segment(id)}`, null, signal);
    return job.state === state ? { ...job, due_ms: Date.parse(job.due), named: true } : null;
  } catch (e) {
    if (e.word === 'not-found' || e.word === 'bad-path') {
      return null;
    }
    throw e;
  }
}

const NONE = { waiting: 'No pending jobs.', held: 'No job waits behind another job of its key.',
               'in-flight': 'No job is in flight.' };

export function jobList(name, state, isQueue) {
  const ends = state === 'in-flight';
  const list = pages({
    most: PAGE,
    none: (asked) => (isQueue && !asked.queue ? 'Choose a queue.' : Object.keys(asked).some((what) => what !== 'queue')
      ? 'No job matches.' : NONE[state]),
    fields: [...(isQueue ? [{ name: 'queue', label: 'Queue', list: 'queues' }] : []),
             { name: 'id_prefix', label: 'Id begins with', type: 'search' },
             { name: 'from', label: ends ? 'Lease expires from' : 'Due from', type: 'datetime-local' },
             { name: 'to', label: 'Until', type: 'datetime-local' }],
    extra: isQueue ? h('datalist', { id: 'queues' }) : null,
    columns: [['Id', 'text'], [ends ? 'Lease expires' : 'Due', 'time'], ['Attempts', 'number'], ['Target', 'text.more'],
              ['Key', 'text.more'], ['Source', 'word.more'], ['Size', 'number.more']],
    ask: async (asked, cursor, signal) => {
      if (isQueue && !asked.queue) {
        return { rows: [], cursor: null, looked: 0 };
      }
      if (asked.id_prefix && !cursor && !isQueue) {
        const job = await exactly(name, asked.id_prefix, state, signal);
        if (job) {
          return { rows: [job], cursor: BEHIND_EXACT, looked: 1, enough: true };
        }
      }
      const page = await get(`/v1/admin/routes/${segment(name)}/jobs`,
        { ...asked, state, cursor: cursor === BEHIND_EXACT ? null : cursor }, signal);
      return { rows: page.jobs.filter((job) => job.id !== asked.id_prefix || cursor !== BEHIND_EXACT),
               cursor: page.cursor, looked: page.looked };
    },
    cells: (job) => [job.id, moment(ends ? job.lease_ends_ms : job.due_ms), String(job.attempts), job.target ?? '',
                     key_of(job), job.source ?? '', job.bytes === undefined ? '' : size(job.bytes)],
    enter: (job, done, asked) => detail(name, job, asked.queue, done),
  });
  if (isQueue) {
    get(`/v1/admin/routes/${segment(name)}/queues`).then(({ queues }) => {
      list.element.querySelector('datalist').replaceChildren(...queues.map((q) => h('option', { value: q.name })));
      list.inputs[0].value ||= queues[0]?.name || '';
    }).catch((e) => toast(e.message, true)).finally(list.begin);
  } else {
    list.begin();
  }
  return list;
}
