// SPDX-License-Identifier: BSD-2-Clause
// banner.js - what holds for all pages: Redis does not answer, or may lose jobs.

import { button, h, put, span } from './dom.js';

const HIDDEN = 'tarry-hidden-warnings';

function hidden() {
  return JSON.parse(sessionStorage.getItem(HIDDEN) || '[]');
}

// 3 s, 59 s, 4 m 20 s
const seconds = (s) => (s < 60 ? `${Math.max(1, Math.floor(s))} s` : span(s * 1000));

// With several servers their names are given.
const name_of = (r, all) => (all.length > 1 ? `Redis ${r.name}` : 'Redis');

// "Redis has not answered for 3 s."; '' if all servers answer.
export function redis_silence(status) {
  const silent = status.redis.filter((r) => r.answers === false).sort((a, b) => b.silent_s - a.silent_s)[0];
  return silent ? `${name_of(silent, status.redis)} has not answered for ${seconds(silent.silent_s)}.` : '';
}

function warnings_of(status) {
  return status.redis.flatMap((r) => (r.warnings || []).map((text) => (status.redis.length > 1 ? `Redis ${r.name}: ${text}` : text)))
    .filter((text) => !hidden().includes(text));
}

export function show_banner(element, status) {
  const silence = redis_silence(status);
  const texts = [...(silence ? [`${silence} Counts are unknown until it answers.`] : []), ...warnings_of(status)];
  element.hidden = !texts.length;
  while (element.children.length > texts.length) {
    element.lastChild.remove();
  }
  texts.forEach((text, i) => {
    const line = element.children[i] || element.appendChild(h('p', null, h('span'), button('Hide', () => {
      sessionStorage.setItem(HIDDEN, JSON.stringify([...hidden(), line.firstChild.textContent]));
      show_banner(element, status);
    }, 'quiet')));
    const is_silence = silence !== '' && i === 0;
    line.className = is_silence ? 'bad' : '';
    line.lastChild.hidden = is_silence;
    put(line.firstChild, text);
  });
}
