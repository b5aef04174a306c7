// SPDX-License-Identifier: BSD-2-Clause
// jobs.js - the jobs of a route that wait or are in flight: looked through, shown, run now, moved,
// cancelled.

import { ask, get, post, segment } from './api.js';
import { button, clock, dialog, fromNow, h, size, toast, utc } from './dom.js';
import { now } from './model.js';
import { facts, pages } from './pages.js';

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
    [text, note] = [dump(bytes), `${size(bytes.length)}, no text`];
  } else if (job.payload === null) {
    note = 'none (null)';
  } else {
    text = job.payload;
    note = size(new TextEncoder().encode(text).length);
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
      note += ', JSON';
    } catch {
      // it is shown as it came
    }
  }
  const cut = text && text.length > PAYLOAD_SHOWN;
  return [h('h3', null, 'Payload ', h('small', null, note)),
          text ? h('pre', { tabindex: '0' }, cut ? text.slice(0, PAYLOAD_SHOWN) : text) : null,
          cut ? h('p.hint', null, `The first ${size(PAYLOAD_SHOWN)} of it.`) : null];
}

function headers(job) {
  const rows = Object.entries(job.headers || {}).flatMap(([name, value]) => [value].flat().map((v) => [name, v]));
  return rows.length ? [h('h3', null, 'Headers'), facts(rows)] : [];
}

// What a source keeps of a job: key, headers, payload.
export function content(job) {
  return [job.key !== undefined || job.key_base64 !== undefined
    ? facts([['Key', job.key_base64 !== undefined ? `${job.key_base64} (base64)` : job.key]]) : null,
  ...headers(job), ...payload(job)];
}

export function when(ms) {
  return ms === null || ms === undefined ? null
    : h('time', { datetime: utc(ms), title: utc(ms) }, `${clock(ms)} (${fromNow(ms, now())})`);
}

async function moveDialog(name, id, queue) {
  const after = h('input', { name: 'after', placeholder: '30m', id: 'after', spellcheck: 'false', autocomplete: 'off' });
  const at = h('input', { name: 'at', type: 'datetime-local', step: '1', id: 'at' });
  const body = h('div.fields', null, h('label', { for: 'after' }, 'After, from now'), after,
    h('label', { for: 'at' }, 'or at (your time)'), at);
  return dialog(`Move ${id}`, body, 'Move', () => {
    const how = after.value.trim() ? { after: after.value.trim() }
      : { at: at.value ? new Date(at.value).toISOString() : '' };
    return post(`/v1/admin/routes/${segment(name)}/jobs/${segment(id)}/move`, { ...how, queue });
  });
}

// The buttons for one job. done(): the list is out of date.
function actions(name, job, queue, done) {
  const path = `/v1/admin/routes/${segment(name)}/jobs/${segment(job.id)}`;
  const told = (moved) => `${job.id}: due ${fromNow(moved.due_ms, now())}` +
    (moved.held ? ', behind others of its key' : '');
  const tried = (act) => async () => {
    try {
      const text = await act();
      if (text) {
        toast(text);
        done();
      }
    } catch (e) {
      toast(e.message, true);
    }
  };
  const runNow = tried(async () => told(await post(`${path}/now`, { queue })));
  const move = tried(async () => {
    const moved = await moveDialog(name, job.id, queue);
    return moved && told(moved);
  });
  const cancel = tried(() => dialog(`Cancel ${job.id}?`, h('p', null, 'It is taken out, and never delivered.'),
    'Cancel the job', async () => {
      await ask('DELETE', path.replace('/admin', ''));
      return `${job.id} is cancelled.`;
    }, 'danger'));
  // Whether it has got there is not known; but if it fails, that was all.
  const end = tried(() => dialog(`Give ${job.id} no further attempt?`,
    h('p', null, 'It is being delivered, and that can\'t be called back. If it fails, it is not tried again.'),
    'No further attempt', async () => {
      await ask('DELETE', path.replace('/admin', '')).catch((e) => {
        if (e.word !== 'in-flight') {
          throw e;
        }
      });
      return `${job.id} is not tried again.`;
    }, 'danger'));
  if (!job.named || (queue && job.state === 'in-flight')) {
    return null;
  } else if (job.state === 'in-flight') {
    return h('p.buttons', null, button('No further attempt…', end, 'danger'));
  }
  return h('p.buttons', null, button('Run now', runNow), button('Move…', move),
    queue ? null : button('Cancel job…', cancel, 'danger'));
}

function detail(name, job, queue, done) {
  const rest = h('div.content', null, h('p.hint', null, 'Looking…'));
  const shown = [
    h('h2.id', null, job.id), actions(name, job, queue, done),
    facts([['State', job.state + (job.far ? ', in the second tier' : '')], ['Due', when(job.due_ms)],
           ['Lease ends', when(job.lease_ends_ms)], ['Attempts', String(job.attempts)],
           ['Last error', job.last_error], ['Target', job.target], ['Source', job.source],
           ['Record', job.bytes === undefined ? '' : size(job.bytes)],
           ['Note', job.unreadable ? 'Its record cannot be read by this tarry.' : !job.named
             ? 'A Kafka record that is due later than redis.horizon: it can be named when its time is near.' : '']]),
    rest];
  if (queue || !job.named) {
    rest.replaceChildren();
  } else {
    get(`/v1/routes/${segment(name)}/jobs/${segment(job.id)}`)
      .then((full) => rest.replaceChildren(...content(full).filter(Boolean)))
      .catch((e) => rest.replaceChildren(h('p.fault', null, e.message)));
  }
  return h('div', null, shown.filter(Boolean));
}

// --- the list ---

// A whole id is found at once, where its beginning would be looked for among all; null: no such job.
// The others that begin so come behind it.
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

const key_of = (job) => (job.key_base64 !== undefined ? `${job.key_base64} (base64)` : job.key ?? '');

export function jobList(name, state, isQueue) {
  const queue = h('input', { list: 'queues', placeholder: 'queue', 'aria-label': 'Queue', name: 'queue' });
  const known = h('datalist', { id: 'queues' });
  const list = pages({
    most: PAGE,
    none: state === 'waiting' ? 'Nothing waits.' : state === 'held' ? 'Nothing waits behind another job of its key.'
      : 'Nothing is in flight.',
    fields: [{ name: 'id_prefix', label: 'Id begins with', type: 'search' },
             { name: 'from', label: state === 'in-flight' ? 'Lease ends from' : 'Due from', type: 'datetime-local' },
             { name: 'to', label: 'to', type: 'datetime-local' }],
    extra: isQueue ? h('label', null, h('span', null, 'Queue'), queue, known) : null,
    columns: ['Id', state === 'in-flight' ? 'Lease ends' : 'Due', 'Attempts', 'Target', 'Key', 'Source', 'Size'],
    ask: async (filters, cursor, signal) => {
      if (isQueue && !queue.value) {
        return { rows: [], cursor: null, looked: 0 };
      }
      if (filters.id_prefix && !cursor && !isQueue) {
        const job = await exactly(name, filters.id_prefix, state, signal);
        if (job) {
          return { rows: [job], cursor: BEHIND_EXACT, looked: 1, enough: true };
        }
      }
      const page = await get(`/v1/admin/routes/${segment(name)}/jobs`,
        { ...filters, state, cursor: cursor === BEHIND_EXACT ? null : cursor, queue: isQueue ? queue.value : '' }, signal);
      return { rows: page.jobs.filter((job) => job.id !== filters.id_prefix || cursor !== BEHIND_EXACT),
               cursor: page.cursor, looked: page.looked };
    },
    cells: (job) => {
      const ms = state === 'in-flight' ? job.lease_ends_ms : job.due_ms;
      return [job.id, h('time', { datetime: utc(ms), title: utc(ms) }, `${clock(ms)}`, h('small', null, fromNow(ms, now()))),
              String(job.attempts), job.target ?? '', key_of(job), job.source ?? '', job.bytes === undefined ? '' : size(job.bytes)];
    },
    enter: (job, done) => detail(name, job, isQueue ? queue.value : '', done),
  });
  if (isQueue) {
    get(`/v1/admin/routes/${segment(name)}/queues`).then((answer) => {
      known.replaceChildren(...answer.queues.map((q) => h('option', { value: q.name })));
      queue.value = queue.value || answer.queues[0]?.name || '';
      list.begin();
    }).catch((e) => toast(e.message, true));
  } else {
    list.begin();
  }
  return list;
}

