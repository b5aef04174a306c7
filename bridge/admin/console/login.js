// SPDX-License-Identifier: BSD-2-Clause
// login.js - asks for the token.

import { get, token } from './api.js';
import { h, put } from './dom.js';

const REFUSALS = {
  'no-token': '', // no token entered yet
  'bad-token': 'Unknown token.',
  'no-role': 'This token does not have the role admin.',
};
export const refusal = (e) => (Object.hasOwn(REFUSALS, e.word) ? REFUSALS[e.word] : e.message);

// why: the text shown first; enter(): called after the daemon has accepted the token.
export function loginForm(why, enter) {
  const field = h('input', { type: 'password', name: 'token', autocomplete: 'off', required: true,
                             spellcheck: 'false', id: 'token' });
  const fault = h('p.fault', { role: 'alert' }, why || '');
  return h('form.login', {
    onsubmit: async (event) => {
      event.preventDefault();
      token.set(field.value.trim());
      try {
        await get('/v1/admin/status');
        enter();
      } catch (e) {
        token.forget();
        put(fault, refusal(e));
        field.select();
      }
    },
  }, h('h1', null, 'tarry'), h('label', { for: 'token' }, 'Token with the role admin'), field, fault,
  h('button.primary', { type: 'submit' }, 'Log in'),
  h('p.hint', null, 'The token is stored until this tab is closed.'));
}
