// SPDX-License-Identifier: BSD-2-Clause
// console_operator.mjs - scenarios of console.mjs: what the console says about broken routes, a silent Redis, the
// jobs ahead and the past.
import assert from 'node:assert/strict';

export const operator = (kit) => {
  const { have, seen, text, button, goto, route, ready, shot, toast } = kit;
  const line = (name) => kit.page.locator('.routes tbody tr').filter(
    { has: kit.page.getByRole('link', { name, exact: true }) });
  const bars = () => kit.page.locator('.ahead rect');
  const label = () => kit.page.locator('.ahead svg').getAttribute('aria-label');
  const awaits = (what, of) => kit.page.waitForFunction(what, of);

  return {
    // have.broken: route -> [word, part of its cause].
    async broken() {
      await goto('/');
      for (const [name, [word, cause]] of Object.entries(have.broken)) {
        await line(name).locator('.state').filter({ hasText: word }).waitFor();
        await line(name).locator('.cause').filter({ hasText: cause }).waitFor();
      }
      const n = Object.keys(have.broken).length;
      await kit.page.locator('#unhealthy').filter({ hasText: `${n} unhealthy routes` }).waitFor();
      assert.match(await kit.page.title(), new RegExp(`^\\(${n}\\) `));
      await kit.page.locator('.ahead .legend').filter({ hasText: 'paused' }).waitFor(); // not overdue
      seen.order = await kit.page.locator('.routes tbody a.name').allInnerTexts();
      seen.healthy = await line(have.healthy).locator('.state').innerText();
      await shot('broken');
      await line(have.failing).getByRole('link').click();
      await kit.page.locator('div.cause').filter({ hasText: have.broken[have.failing][1] }).waitFor();
      seen.cause = await text('div.cause');
      seen.failed = await kit.page.locator('.figure').filter({ hasText: 'Failed attempts' }).innerText();
      assert.match(await text('#unhealthy'), /unhealthy/);
      await shot('broken-route');
    },

    async stopped() {
      await route(have.route);
      const row = kit.page.locator('.targets tbody tr').filter({ hasText: 'stopped' });
      await row.waitFor();
      seen.target = await row.locator('th').innerText();
      await shot('stopped');
      await row.getByRole('button', { name: `Resume ${seen.target}` }).click();
      await toast(/deliveries resume/);
      await kit.page.locator('.head .state').filter({ hasText: 'healthy' }).waitFor();
    },

    // Jobs in the next hour, and in the next day.
    async ahead() {
      await goto('/');
      await awaits((n) => document.querySelectorAll('.ahead rect').length >= n, 1);
      await awaits((n) => document.querySelector('.ahead svg').getAttribute('aria-label').includes(n), `hour: ${have.hour}`);
      const frame = await kit.page.locator('.ahead svg').boundingBox();
      const bar = await bars().first().boundingBox();
      await kit.page.mouse.move(bar.x + bar.width / 2, frame.y + frame.height / 2);
      seen.hovered = await text('.ahead .when');
      await kit.page.locator('.ahead').getByText('As a table').click();
      seen.table = await kit.page.locator('.ahead tbody tr').allInnerTexts();
      await button('Day').first().click();
      await awaits((n) => document.querySelector('.ahead svg').getAttribute('aria-label').includes(n), `day: ${have.day}`);
      seen.cost = await text('.ahead .cost');
      await shot('ahead');
      await route(have.route);
      await awaits((n) => document.querySelector('.ahead svg').getAttribute('aria-label').includes(n), `day of ${have.route}: ${have.day}`);
      seen.label = await label();
      await button('Week').click();
      await awaits(() => document.querySelector('.ahead svg').getAttribute('aria-label').includes('week'));
    },

    // The charts are full when the page is opened, and show a pause.
    async history() {
      await route(have.route);
      await awaits(() => document.querySelector('.history .choice [aria-pressed=true]')?.textContent === 'Hour');
      await kit.page.locator('.history .events summary').waitFor();
      await kit.page.locator('.history .events summary').click();
      seen.events = await kit.page.locator('.history .events li').allInnerTexts();
      seen.flags = await kit.page.locator('.history .chart').first().locator('.flags line').count();
      seen.drawn = await kit.page.locator('.history .chart path.stroke.line0').nth(1).getAttribute('d');
      await shot('history');
      await kit.page.locator('.history').getByRole('button', { name: 'Day' }).click();
      await kit.page.locator('.history .labels').first().getByText('16 h').waitFor();
      await kit.page.locator('.history').getByRole('button', { name: 'Live' }).click();
      await kit.page.locator('.history .labels').first().getByText('1 m').waitFor();
    },

    // Redis hangs, then answers again.
    async silent() {
      await goto('/');
      await kit.page.locator('#health.good').waitFor();
      ready();
      await kit.page.locator('#banner').filter({ hasText: /Redis has not answered for \d+ s/ }).waitFor();
      await line('r').locator('.c4').filter({ hasText: 'unknown' }).waitFor();
      seen.total = await text('.total');
      seen.health = await text('#health');
      await shot('silent');
      ready('reported');
      await kit.page.locator('#health.good').waitFor();
      await kit.page.locator('#banner').filter({ hasText: 'has not answered' }).waitFor({ state: 'detached' });
      await line('r').locator('.c4').filter({ hasText: '1' }).waitFor();
    },

    // A Redis that may lose jobs.
    async durability() {
      await goto('/');
      await kit.page.locator('#banner p').first().waitFor();
      seen.banner = await text('#banner p span >> nth=0');
      await kit.page.locator('#banner').getByRole('button', { name: 'Hide' }).first().click();
      await goto('/status');
      await kit.page.locator('.card').filter({ hasText: 'Durability' }).locator('tbody tr').waitFor();
      seen.card = await kit.page.locator('.card').filter({ hasText: 'Durability' }).innerText();
    },
  };
};
