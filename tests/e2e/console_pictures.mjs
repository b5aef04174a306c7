// SPDX-License-Identifier: BSD-2-Clause
// console_pictures.mjs - a picture of each page, and axe on each, for console.mjs. Written to the folder of the
// screenshots as NAME-KIND.png.

export async function pictures(kit, kind) {
  const { button, goto, route, rows, fits, legible, have } = kit;
  const take = async (name) => {
    await kit.page.waitForTimeout(300);
    await legible(name);
    await fits(name);
    await kit.page.screenshot({ path: `${have.shots}/${name}-${kind}.png`, fullPage: true });
  };
  const settled = () => kit.page.locator('.said').filter({ hasNotText: 'Looking…' }).first().waitFor();

  await goto('/');
  await kit.page.locator('.routes tbody tr').first().waitFor();
  await kit.page.locator('.ahead rect').first().waitFor();
  await take('overview');
  await kit.page.locator('.ahead').getByText('As a table').click();
  await take('overview-table');
  for (const name of have.routes) {
    await route(name);
    await settled();
    await kit.page.waitForTimeout(2500);
    await take(`route-${name}`);
  }
  await route(have.busy);
  await rows().nth(0).getByRole('button').click();
  await kit.page.locator('.drawer pre').first().waitFor();
  await take('job');
  await kit.page.keyboard.press('Escape');
  await button('Cancel these…').click();
  await kit.page.getByRole('dialog').getByText('will be cancelled').waitFor();
  await take('dialog');
  await button('Back').click();
  await kit.page.getByRole('tab', { name: 'Live' }).click();
  await kit.page.locator('.tap tbody tr').first().waitFor();
  await take('live');
  await route(have.dead);
  await kit.page.getByRole('tab', { name: 'Dead letters' }).click();
  await kit.page.locator('.groups tbody tr').first().waitFor();
  await rows().nth(0).waitFor();
  await take('dead');
  await goto(`/queue/${have.queue}`);
  await settled();
  await take('queue');
  await goto('/status');
  await kit.page.locator('.card table').first().waitFor();
  await take('status');
}
