// SPDX-License-Identifier: BSD-2-Clause
// console.mjs SCENARIO JSON - drives the web console in headless Chromium for test_console.py, which
// has made the daemon and its jobs, and looks at what became of them. JSON: { url, chromium, modules,
// shots, ...what the scenario needs }. Prints a line of JSON with what it saw; any fault is an exit of 1.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const [name, given] = process.argv.slice(2);
const have = JSON.parse(given);
const { chromium } = createRequire(have.modules + '/')('playwright-core');
const seen = {};

let page, faults;

async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, colorScheme: 'light', ...options });
  page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.on('pageerror', (e) => faults.push(`error: ${e.message}`));
  page.on('dialog', (d) => {
    faults.push(`a dialog of the browser: ${d.message()}`);
    d.dismiss();
  });
  page.on('console', (m) => {
    // What the daemon refuses is told by the page; the browser notes it here, too.
    if (m.type() === 'error' && !/Failed to load resource/.test(m.text())) {
      faults.push(`console: ${m.text()}`);
    }
  });
  page.on('request', (r) => {
    if (!r.url().startsWith(have.url) && !r.url().startsWith('data:')) {
      faults.push(`asks elsewhere: ${r.url()}`);
    }
  });
}

const shot = (file) => page.screenshot({ path: `${have.shots}/${file}.png` });
const text = (what) => page.locator(what).innerText();
const button = (label) => page.getByRole('button', { name: label, exact: true });
const shows = (what) => page.getByText(what, { exact: false }).first().waitFor();
const goto = (place) => page.goto(`${have.url}/console#${place}`);
const route = async (r) => {
  await goto(`/route/${r}`);
  await page.locator('.tabs').waitFor();
};
const rows = () => page.locator('.jobs .list tbody tr');
const said = (pattern) => page.locator('.said').filter({ hasText: pattern }).waitFor();
const toast = (pattern) => page.locator('.toast').filter({ hasText: pattern }).first().waitFor();

async function login(token) {
  await page.getByLabel('Token with the role admin').fill(token);
  await button('Log in').click();
}

const scenarios = {
  async login() {
    const answer = await page.goto(have.url + '/');
    assert.equal(new URL(page.url()).pathname, '/console');
    assert.match(answer.headers()['content-security-policy'], /default-src 'none'; script-src 'self'/);
    await page.locator('.login').waitFor();
    await shot('login');
    await login('not-a-token-of-this-daemon');
    await shows('The daemon does not know this token.');
    await login(have.producer);
    await shows('This token has not the role admin.');
    await login(have.admin);
    await page.locator('.routes tbody tr').first().waitFor();
    await page.reload();
    await page.locator('.routes tbody tr').first().waitFor();
    const kept = await page.evaluate(() => [Object.values({ ...localStorage }).join(), document.cookie,
                                            Object.values({ ...sessionStorage }).join()]);
    assert.deepEqual([kept[0].includes(have.admin), kept[1], kept[2]], [false, '', have.admin]);
    await button('Log out').click();
    await page.locator('.login').waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    await page.reload();
    await page.locator('.login').waitFor();
  },

  async figures() {
    await goto('/');
    const row = page.locator('.routes tbody tr').filter({ has: page.getByRole('link', { name: have.route, exact: true }) });
    await page.waitForFunction((n) => [...document.querySelectorAll('.routes tbody tr')]
      .some((tr) => tr.querySelector('a').textContent === n && parseFloat(tr.children[2].textContent) > 0), have.route);
    seen.rate = parseFloat(await row.locator('td').nth(1).innerText());
    seen.health = await text('#health');
    await page.waitForTimeout(have.wait_ms || 0);
    await shot('routes');
    await row.getByRole('link').click();
    await page.locator('.chart path.stroke').first().waitFor();
    await page.waitForTimeout(4500);
    seen.waiting = await text('.figure dd >> nth=0');
    seen.drawn = await page.locator('.chart path.stroke.line0').first().getAttribute('d');
    await shot('route');
    await goto('/status');
    await shows('Reload configuration');
    await page.locator('.card table').first().waitFor();
    seen.status = await text('.status');
    await shot('status');
  },

  async browse() {
    await route(have.route);
    const begun = Date.now();
    await page.reload();
    await rows().nth(49).waitFor();
    seen.first_page_ms = Date.now() - begun;
    const first = await rows().nth(0).locator('button').innerText();
    const next = Date.now();
    await button('Next ›').click();
    await said(/page 2, 50 shown/);
    seen.next_page_ms = Date.now() - next;
    assert.notEqual(await rows().nth(0).locator('button').innerText(), first);
    await button('‹ Before').click();
    await said(/^50 shown/);
    assert.equal(await rows().nth(0).locator('button').innerText(), first);
    // A whole id is found at once, and behind it those that begin so.
    await page.getByLabel('Id begins with').fill(have.wanted);
    await page.keyboard.press('Enter');
    await said(/^1 shown/);
    assert.equal(await rows().nth(0).locator('button').innerText(), have.wanted);
    await page.getByLabel('Id begins with').fill(have.wanted.slice(0, -1));
    await page.keyboard.press('Enter');
    const search = Date.now();
    for (let pages = 1; !/\d shown/.test(await text('.said')); pages++) {
      await page.locator('.said').filter({ hasText: /\d shown|^none among/ }).waitFor({ timeout: 60000 });
      if (/^none among/.test(await text('.said'))) {
        await button('Next ›').click();
        await said(/Looking/);
      }
      assert.ok(pages < 100, 'it is not found');
    }
    seen.search_ms = Date.now() - search;
    assert.ok((await rows().nth(0).locator('button').innerText()).startsWith(have.wanted.slice(0, -1)));
    seen.heap_mb = (await page.evaluate(() => performance.memory.usedJSHeapSize)) / 1e6;
    await shot('browse');
  },

  async act() {
    await route('r');
    await rows().nth(2).waitFor();
    await button('to-cancel').click();
    await page.locator('.drawer pre').waitFor();
    await shot('job');
    await button('Cancel job…').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click();
    await toast(/to-cancel is cancelled/);
    await button('to-run').click();
    await button('Run now').click();
    await toast(/to-run: due/);
    await button('to-move').click();
    await button('Move…').click();
    const box = page.getByRole('dialog');
    await box.getByRole('button', { name: 'Move' }).click();
    await box.getByText('say either at=INSTANT or after=DURATION').waitFor();
    await box.getByLabel('After, from now').fill('5h');
    await shot('move');
    await box.getByRole('button', { name: 'Move' }).click();
    await toast(/to-move: due in 4 h 59 m|to-move: due in 5 h/);
    await said(/1 shown, no more/);
  },

  async dead() {
    await route('r');
    await page.getByRole('tab', { name: 'Dead letters' }).click();
    await rows().nth(2).waitFor();
    await shot('dead');
    await page.getByLabel('Id begins with').fill('b-');
    await page.keyboard.press('Enter');
    await said(/^1 shown/);
    await button('b-0').click();
    await page.locator('.drawer').getByText('HTTP 400').first().waitFor();
    await page.locator('.drawer').getByRole('button', { name: 'Replay' }).click();
    await toast(/b-0 is replayed/);
    await page.getByLabel('Id begins with').fill('a-');
    await page.keyboard.press('Enter');
    await said(new RegExp(`^${have.shown} shown`));
    await button('Replay these…').click();
    const box = page.getByRole('dialog');
    await box.getByText(`${have.all} will be replayed`).waitFor();
    await shot('replay');
    await box.getByRole('button', { name: 'Cancel' }).click();
    await button('Replay these…').click();
    await box.getByText(`${have.all} will be replayed`).waitFor();
    await box.getByRole('button', { name: 'Replay' }).click();
    await toast(new RegExp(`${have.all} replayed`));
    await page.getByLabel('Id begins with').fill('');
    await page.keyboard.press('Enter');
    await said(/1 shown/);
    await button('Drop these…').click();
    await box.getByText('1 will be dropped').waitFor();
    await box.getByRole('button', { name: 'Drop' }).click();
    await toast(/1 dropped/);
    await said(/There are no dead letters/);
  },

  async pause() {
    await route('r');
    await button('Pause').click();
    const box = page.getByRole('dialog');
    await box.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.head .state.paused').waitFor();
    await shot('paused');
    await button('Resume').click();
    await page.locator('.head .state.running').waitFor();
  },

  async reload() {
    await goto('/status');
    await button('Reload configuration').click();
    await page.locator('.status pre').filter({ hasText: have.want }).waitFor();
    seen.told = await text('.status pre');
  },

  // Whatever a job says is text.
  async hostile() {
    for (const tab of ['Waiting', 'Dead letters']) {
      await route('r');
      await page.getByRole('tab', { name: tab }).click();
      for (const id of have[tab]) {
        await rows().filter({ hasText: id }).first().getByRole('button').click();
        await page.locator('.drawer h2.id').filter({ hasText: id }).waitFor();
        await page.locator('.drawer pre').waitFor();
        assert.equal(await text('.drawer h2.id'), id);
      }
      await shot(tab === 'Waiting' ? 'hostile' : 'hostile-dead');
    }
    assert.equal(await page.evaluate(() => window.owned), undefined);
    assert.equal(await page.locator('main script, main img, main iframe').count(), 0);
    // The policy stops what would slip through.
    const stopped = await page.evaluate(() => new Promise((resolve) => {
      document.addEventListener('securitypolicyviolation', (e) => resolve(e.effectiveDirective));
      const script = document.createElement('script');
      script.textContent = 'window.owned = 1';
      document.body.append(script);
      setTimeout(() => resolve('nothing'), 2000);
    }));
    assert.equal(stopped, 'script-src-elem');
    assert.equal(await page.evaluate(() => window.owned), undefined);
    faults = faults.filter((f) => !/Refused to execute|violates the following/.test(f));
  },

  // Without a mouse: a route, a job, what it holds, and back.
  async keys() {
    await goto('/route/%'); // somebody's typing: no escape
    await shows('No route % is known yet.');
    await page.locator('#health.good').waitFor();
    await goto('/');
    await page.locator('.routes tbody tr').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('r');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('.tabs').waitFor();
    await rows().nth(2).waitFor();
    await page.locator('.list tbody button').first().focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.locator('.drawer h2.id').waitFor();
    seen.opened = await text('.drawer h2.id');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Close');
    await page.keyboard.press('Escape');
    await page.locator('.drawer').waitFor({ state: 'hidden' });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), seen.opened);
    await page.getByRole('tab', { name: 'Waiting' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.locator('[role=tab][aria-selected=true]', { hasText: 'In flight' }).waitFor();
  },

  async gone() {
    await goto('/');
    await page.locator('#health.good').waitFor();
    console.log('ready'); // the daemon ends now, and comes back
    await page.locator('#health.bad').filter({ hasText: 'does not answer' }).waitFor();
    await shot('gone');
    await page.locator('#health.good').waitFor({ timeout: 30000 });
  },
};

// Looks like these are taken, too: scenarios whose context differs.
const contexts = {
  dark: [{ colorScheme: 'dark' }, async () => {
    await goto('/');
    await page.locator('.routes tbody tr').first().waitFor();
    await page.waitForTimeout(have.wait_ms || 0);
    await shot('routes-dark');
    await route(have.route);
    await rows().nth(1).locator('button').click();
    await page.locator('.drawer h3').first().waitFor();
    await page.waitForTimeout(4500);
    await shot('route-dark');
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    await button('Light').click();
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(246, 247, 249)');
  }],
  phone: [{ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true }, async () => {
    const fits = async (what) => assert.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what} is wider than the screen`);
    await goto('/');
    await page.locator('.routes tbody tr').first().waitFor();
    await page.waitForTimeout(2500);
    await fits('the list of routes');
    await shot('phone-routes');
    await route(have.route);
    await rows().nth(1).waitFor();
    await page.waitForTimeout(4500);
    await fits('a route');
    await shot('phone-route');
    await rows().nth(1).locator('button').tap();
    await page.locator('.drawer h3').first().waitFor();
    await fits('a job');
    await shot('phone-job');
    await goto('/status');
    await page.locator('.card table').first().waitFor();
    await fits('the status');
    await shot('phone-status');
  }],
};

const browser = await chromium.launch({ executablePath: have.chromium, args: ['--no-sandbox', '--disable-gpu'] });
try {
  faults = [];
  const [options, run] = contexts[name] || [{}, scenarios[name]];
  await open(browser, options);
  await run();
  assert.deepEqual(faults, []);
  console.log(JSON.stringify(seen));
} catch (e) {
  await shot(`fault-${name}`).catch(() => {});
  console.error(e.stack, faults);
  process.exitCode = 1;
} finally {
  await browser.close();
}
