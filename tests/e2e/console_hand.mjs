// SPDX-License-Identifier: BSD-2-Clause
// console_hand.mjs - scenarios of console.mjs: operations on many jobs, a queue, dead letters by error, live events,
// and the age of a list.
import assert from 'node:assert/strict';

export const hand = (kit) => {
  const { have, seen, text, button, goto, route, rows, said, toast, ready, done, shot } = kit;
  const box = () => kit.page.getByRole('dialog');
  const prefix = async (id) => {
    await kit.page.getByLabel('Id begins with').fill(id);
    await kit.page.keyboard.press('Enter');
  };

  return {
    // Jobs a-* are cancelled, b-* moved, c-* run now; the counts come first.
    async bulk() {
      await route('r');
      await prefix('a-');
      await said(/^50 shown/);
      await button('Cancel these…').click();
      await box().getByText(`${have.count} jobs will be cancelled`).waitFor();
      await box().getByText('Only: waiting, id begins with a-.').waitFor();
      await shot('bulk-cancel');
      await box().getByRole('button', { name: 'Back' }).click();
      await button('Cancel these…').click();
      await box().getByText(`${have.count} jobs will be cancelled`).waitFor();
      await box().getByRole('button', { name: 'Cancel the jobs' }).click();
      await toast(new RegExp(`^${have.count} jobs cancelled`));
      await prefix('b-');
      await said(/^50 shown/);
      await button('Move these…').click();
      await box().getByText(`${have.count} jobs will be moved`).waitFor();
      await box().getByRole('button', { name: 'Move' }).click();
      await box().getByText('Enter either a delay').waitFor();
      await box().getByLabel('Delay from now').fill('5h');
      await box().getByRole('button', { name: 'Move' }).click();
      await toast(new RegExp(`^${have.count} jobs moved`));
      await prefix('c-');
      await said(/^50 shown/);
      await button('Run these now…').click();
      await box().getByText(`${have.count} jobs will be run now`).waitFor();
      await box().getByRole('button', { name: 'Run now' }).click();
      await toast(new RegExp(`^${have.count} jobs run now`));
      await said(/No job matches/);
    },

    // A slow operation shows its progress, and stops.
    async stop() {
      await route('r');
      await rows().nth(49).waitFor();
      await button('Cancel these…').click();
      await box().getByText(`${have.count} jobs will be cancelled`).waitFor();
      await box().getByLabel('Per second').fill('20');
      await box().getByRole('button', { name: 'Cancel the jobs' }).click();
      await box().getByText('cancelled so far').waitFor();
      await kit.page.waitForFunction(() => document.querySelector('dialog progress').value > 20);
      await shot('bulk-progress');
      await box().getByRole('button', { name: 'Stop' }).click();
      await toast(/jobs cancelled/);
      seen.cancelled = parseInt((await text('.toast')).replaceAll(',', ''), 10);
    },

    // A queue: its list, its page with a tab for each state, and the purge.
    async queues() {
      await route('q');
      const line = kit.page.locator('.queues tbody tr').filter({ hasText: 'mails' });
      await line.waitFor();
      await kit.page.waitForFunction(() => document.querySelector('.queues tbody td')?.textContent === '2');
      seen.line = (await line.locator('td').allInnerTexts()).slice(0, 6);
      seen.figures = await kit.page.locator('.figures').innerText();
      await shot('queues');
      await line.getByRole('link').click();
      await kit.page.getByRole('tab', { name: 'Delayed 3' }).waitFor();
      seen.tabs = await kit.page.getByRole('tab').allInnerTexts();
      seen.consumers = await kit.page.locator('.figure').filter({ hasText: 'Consumers' }).locator('dd').first().innerText();
      await said(/^2 shown/);
      await shot('queue');
      for (const [tab, n] of [['Delayed', 3], ['In flight', 1], ['Dead', 1]]) {
        await kit.page.getByRole('tab', { name: tab }).click();
        await said(new RegExp(`^${n} shown`));
      }
      await shot('queue-dead');
      await button('Purge…').click();
      await box().getByText('5 jobs will be deleted').waitFor();
      await box().getByRole('button', { name: 'Purge' }).click();
      await toast(/^5 jobs deleted/);
      await button('Purge dead letters…').click();
      await box().getByText('1 dead letter will be dropped').waitFor();
      await box().getByRole('button', { name: 'Drop' }).click();
      await toast(/1 dead letter dropped/);
      await kit.page.getByRole('tab', { name: 'Delayed 0' }).waitFor();
      await shot('queue-purged');
    },

    // Dead letters by error; a click shows the letters of a group.
    async grouped() {
      await route('r');
      await kit.page.getByRole('tab', { name: 'Dead letters' }).click();
      await kit.page.locator('.groups tbody tr').nth(1).waitFor();
      seen.groups = (await kit.page.locator('.groups tbody tr').allInnerTexts()).map((t) => t.split(/\s*\t\s*/));
      await shot('dead-groups');
      await kit.page.locator('.groups tbody button').nth(1).click();
      await said(new RegExp(`^${have.second} shown`));
      await rows().nth(0).getByRole('button').click();
      await kit.page.locator('.drawer pre').first().waitFor();
      seen.letter = await text('.drawer');
      await shot('dead-answer');
    },

    // Events appear while the pane is open; the filter, pause, and payloads.
    async live() {
      await route('r');
      await kit.page.getByRole('tab', { name: 'Live' }).click();
      await kit.page.locator('.tap .said').filter({ hasText: 'Waiting for events' }).waitFor();
      ready();
      const events = () => kit.page.locator('.tap tbody tr');
      await events().filter({ hasText: 'delivered' }).first().waitFor();
      await kit.page.getByLabel('Contains').fill('rejected');
      await events().filter({ hasText: 'HTTP 400' }).first().waitFor();
      assert.equal(await events().filter({ hasText: 'delivered' }).count(), 0);
      await kit.page.getByLabel('Contains').fill('');
      await kit.page.getByLabel('Payloads').check();
      await events().locator('code').filter({ hasText: 'secret-ingredient' }).first().waitFor();
      await shot('live');
      await button('Pause').nth(1).click();
      await kit.page.locator('.tap .said').filter({ hasText: 'Paused' }).waitFor();
      const first = await events().first().innerText();
      await kit.page.waitForTimeout(1500);
      assert.equal(await events().first().innerText(), first);
      await button('Clear').click();
    },

    // A list follows its jobs; a list that is not read again says of when it is.
    async ages() {
      await route('r');
      await button('soon').waitFor();
      seen.age = await text('.age');
      await button('soon').waitFor({ state: 'detached' }); // delivered: the list was read again
      ready();
      await button('later').waitFor(); // a new job
      await button('other').click(); // while a job is open, the list stays
      ready('opened');
      await kit.page.locator('tr.passed').filter({ hasText: 'later' }).waitFor();
      seen.passed = await text('.age');
      await shot('aged');
      await kit.page.keyboard.press('Escape');
      await button('later').waitFor({ state: 'detached' });
      assert.equal(await rows().count(), 1);
    },
  };
};
