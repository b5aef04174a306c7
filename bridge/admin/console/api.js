// SPDX-License-Identifier: BSD-2-Clause
// api.js - requests to the daemon that this page came from, with the token of the login.

const KEY = 'tarry-token';

export class ApiError extends Error {
  constructor(status, word, message, body) {
    super(message);
    this.status = status; // 0: there was no answer
    this.word = word;
    this.body = body; // of the answer, where it was JSON
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

// One segment of a path. A browser resolves dots before it sends anything.
export function segment(name) {
  if (name === '.' || name === '..') {
    throw new ApiError(0, 'bad-path', `A browser can't name "${name}"; use the command line: tarry jobs`);
  }
  return encodeURIComponent(name);
}

// The id of a job or a letter as a segment: its bytes, where it is no text.
export function idSegment(job) {
  if (job.id_base64 === undefined) {
    return segment(job.id);
  }
  return Array.from(atob(job.id_base64), (c) => '%' + c.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}

function query(params) {
  const given = Object.entries(params || {}).filter(([, v]) => v !== '' && v !== null && v !== undefined);
  return given.length ? '?' + new URLSearchParams(given) : '';
}

// Gives the JSON of a good answer; throws an ApiError else.
export async function ask(method, path, params, signal) {
  const headers = token.get() ? { Authorization: 'Bearer ' + token.get() } : {};
  let answer, body = null;
  try {
    answer = await fetch(path + query(params), { method, headers, signal, cache: 'no-store' });
    const text = await answer.text();
    body = (answer.headers.get('Content-Type') || '').startsWith('application/json') ? JSON.parse(text) : null;
  } catch (fault) {
    if (fault.name === 'AbortError') {
      throw fault;
    }
    throw new ApiError(0, 'no-answer', 'The daemon does not answer.');
  }
  if (!answer.ok) {
    const said = body || {};
    throw new ApiError(answer.status, said.error || '', said.message || `HTTP ${answer.status}`, body);
  }
  return body;
}

export const get = (path, params, signal) => ask('GET', path, params, signal);
export const post = (path, params) => ask('POST', path, params);
