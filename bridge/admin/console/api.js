// SPDX-License-Identifier: BSD-2-Clause
// api.js - requests to the daemon that served this page, with the token of the login.

const KEY = 'tarry-token';

export class ApiError extends Error {
  constructor(status, word, message, body) {
    super(message);
    this.status = status; // HTTP status; 0: no response
    this.word = word;
    this.body = body; // JSON of the response, or null
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

// Encode one segment of a path. Browsers resolve dot segments, so they are rejected.
export function segment(name) {
  if (name === '.' || name === '..') {
    throw new ApiError(0, 'bad-path', `A browser cannot request "${name}"; use the command line: tarry jobs`);
  }
  return encodeURIComponent(name);
}

// Encode the id of a job or a letter as a segment; if it is not text, its bytes.
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

// Returns the JSON of a successful response, else throws an ApiError.
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
    throw new ApiError(0, 'no-answer', 'The daemon does not respond.');
  }
  if (!answer.ok) {
    const said = body || {};
    throw new ApiError(answer.status, said.error || '', said.message || `HTTP ${answer.status}`, body);
  }
  return body;
}

export const get = (path, params, signal) => ask('GET', path, params, signal);
export const post = (path, params) => ask('POST', path, params);
