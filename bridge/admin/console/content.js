// SPDX-License-Identifier: BSD-2-Clause
// content.js - the key, headers and payload of a job, as text.

import { h, size } from './dom.js';
import { facts } from './pages.js';

const PAYLOAD_SHOWN = 64 * 1024;

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
