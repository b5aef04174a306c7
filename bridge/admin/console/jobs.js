// SPDX-License-Identifier: BSD-2-Clause
// jobs.js - the pending and in-flight jobs of a route: lists and shows them, runs them now, moves and
// cancels them.

import { ask, get, idSegment, post, segment } from './api.js';
import { button, dialog, fromNow, h, is_gone, size, toast } from './dom.js';
import { content, key_of } from './content.js';
import { now } from './model.js';
import { bulkJobs, move_fields } from './bulk.js';
import { facts, moment, pages } from './pages.js';

const PAGE = 50;

// --- one job ---

function moveDialog(path, id, queue) {
  const fields = move_fields();
  return dialog(`Move ${id}`, h('div.fields', null, fields.elements), 'Move', () =>
    post(`${path}/move`, { ...fields.read(), queue }));
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
  } else if (!['waiting', 'held', 'ready', 'delayed'].includes(job.state)) {
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
          facts([['State', job.state + (job.far && !job.gone ? ', far' : '')], ['Note', note_of(job)], ['Blocked', job.blocked_by],
                 ['Due', moment(job.due_ms)], ['Lease expires', moment(job.lease_ends_ms)], ['Attempts', String(job.attempts)],
                 ['Last error', job.last_error], ['Target', job.target], ['Key', key_of(job)], ['Source', job.source],
                 ['Record', job.bytes === undefined ? '' : size(job.bytes)]])].filter(Boolean);
}

// Merge the listed job with its current state. The API of one job returns "waiting" for held jobs, too.
function renewed(job, full) {
  const state = full.state === 'waiting' && job.state === 'held' ? 'held' : full.state;
  return { ...job, state, due_ms: full.due ? Date.parse(full.due) : job.due_ms, attempts: full.attempts,
           last_error: full.last_error, blocked_by: full.blocked_by, lease_ends_ms: state === job.state ? job.lease_ends_ms : null };
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
      if (['state', 'due_ms', 'attempts', 'blocked_by'].some((what) => it[what] !== current[what])) {
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
               'in-flight': 'No job is in flight.', ready: 'No job is ready.', delayed: 'No job is delayed.' };

// The filters of a bulk operation, which knows no "ready" and "delayed": these are waiting jobs, due or not.
function bulk_filters(state, given) {
  const time = new Date(now()).toISOString();
  if (state === 'ready') {
    return { ...given, state: 'waiting', to: given.to && given.to < time ? given.to : time };
  } else if (state === 'delayed') {
    return { ...given, state: 'waiting', from: given.from && given.from > time ? given.from : time };
  }
  return { ...given, state };
}

// act(what): start the operation on all jobs that match. A consumer has the jobs in flight of a queue.
function bulk_buttons(act, state, queue) {
  const is_flying = state === 'in-flight';
  if (is_flying && queue) {
    return null;
  }
  const cancel = is_flying ? button('Stop retrying these…', () => act('stop'), 'danger')
    : button('Cancel these…', () => act('cancel'), 'danger');
  return h('span.actions', null, is_flying || state === 'ready' ? null : button('Run these now…', () => act('now')),
    is_flying ? null : button('Move these…', () => act('move')), cancel);
}

// state: as the API names it; queue: its name, for a route to queues.
export function jobList(name, state, queue) {
  const ends = state === 'in-flight';
  const list = pages({
    most: PAGE,
    none: (asked) => (Object.keys(asked).length ? 'No job matches.' : NONE[state]),
    fields: [{ name: 'id_prefix', label: 'Id begins with', type: 'search' },
             { name: 'from', label: ends ? 'Lease expires from' : 'Due from', type: 'datetime-local' },
             { name: 'to', label: 'Until', type: 'datetime-local' }],
    extra: bulk_buttons((what) => bulkJobs(name, what, { ...bulk_filters(state, list.filters()), queue },
      [state.replace('-', ' '), list.spoken()].filter(Boolean).join(', '), list.begin), state, queue),
    columns: [['Id', 'text'], [ends ? 'Lease expires' : 'Due', 'time'], ['Attempts', 'number'], ['Target', 'text.more'],
              ['Key', 'text.more'], ['Source', 'word.more'], ['Size', 'number.more']],
    ask: async (asked, cursor, signal) => {
      if (asked.id_prefix && !cursor && !queue) {
        const job = await exactly(name, asked.id_prefix, state, signal);
        if (job) {
          return { rows: [job], cursor: BEHIND_EXACT, looked: 1, enough: true };
        }
      }
      const page = await get(`/v1/admin/routes/${segment(name)}/jobs`,
        { ...asked, state, queue, cursor: cursor === BEHIND_EXACT ? null : cursor }, signal);
      return { rows: page.jobs.filter((job) => job.id !== asked.id_prefix || cursor !== BEHIND_EXACT),
               cursor: page.cursor, looked: page.looked };
    },
    cells: (job) => [job.id, moment(ends ? job.lease_ends_ms : job.due_ms), String(job.attempts), job.target ?? '',
                     key_of(job), job.source ?? '', job.bytes === undefined ? '' : size(job.bytes)],
    enter: (job, done) => detail(name, job, queue, done),
  });
  list.begin();
  return list;
}
