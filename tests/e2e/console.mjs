// SPDX-License-Identifier: BSD-2-Clause
// console.mjs SCENARIO JSON - drives the web console in headless Chromium for test_console.py. The test
// creates the daemon and its jobs, and checks the effects. JSON: { url, chromium, modules, shots,
// ...parameters of the scenario }. Prints a line of JSON with what it saw. Exits with 1 on any fault.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hand } from './console_hand.mjs';
import { operator } from './console_operator.mjs';
import { pictures } from './console_pictures.mjs';

const [name, given] = process.argv.slice(2);
const have = JSON.parse(given);
const modules = createRequire(have.modules + '/');
const { chromium } = modules('playwright-core');
const seen = {};

let page, faults;

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, colorScheme: 'light', ...options });
  page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.on('pageerror', (e) => faults.push(`error: ${e.message}`));
  page.on('dialog', (d) => {
    faults.push(`a dialog of the browser: ${d.message()}`);
    d.dismiss();
  });
  page.on('console', (m) => {
    // The page shows what the daemon rejects; the browser logs it here, too.
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
const rows = () => page.locator('.jobs .split .list tbody tr');
const said = (pattern) => page.locator('.said').filter({ hasText: pattern }).waitFor();
const toast = (pattern) => page.locator('.toast').filter({ hasText: pattern }).first().waitFor();

// Violations of WCAG 2.2 AA that axe finds. At the top, where the header covers nothing.
async function legible(where) {
  await page.evaluate(() => scrollTo(0, 0));
  await page.evaluate(readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(() =>
    axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  for (const rule of found.violations) {
    const nodes = rule.nodes.map((n) => `${n.target} ${n.failureSummary}`).join('; ');
    faults.push(`${where}: ${rule.id}: ${rule.help}: ${nodes}`);
  }
}

// innerWidth grows with content that is too wide; the screen does not.
const fits = async (what) => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth),
  page.viewportSize().width, `${what} is as wide as the screen`);

// Prints "ready" to the test, which then does something; waits until it is done.
const ready = (word = 'ready') => console.log(word);
const done = () => new Promise((resolve) => process.stdin.once('data', resolve));

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
    await shows('Unknown token.');
    await login(have.producer);
    await shows('This token does not have the role admin.');
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
      .some((tr) => tr.querySelector('a').textContent === n && parseFloat(tr.children[2].textContent) > 1), have.route);
    seen.rate = parseFloat(await row.locator('td').nth(1).innerText());
    seen.health = await text('#health');
    await page.waitForTimeout(have.wait_ms || 0);
    await shot('routes');
    const moved = await page.evaluate(() => { // by a figure that grows
      const places = () => [...document.querySelectorAll('.routes thead th')].map((th) => th.getBoundingClientRect().x);
      const was = places();
      document.querySelector('.routes tbody .c4').textContent = '123,456,789,012,345';
      return places().filter((x, i) => x !== was[i]).length;
    });
    assert.equal(moved, 0, 'columns move');
    await row.getByRole('link').click();
    await page.locator('.chart path.stroke').first().waitFor();
    await page.waitForFunction(() => /L/.test(document.querySelector('.chart path.stroke.line0').getAttribute('d')));
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
    await button('‹ Previous').click();
    await said(/^50 shown/);
    assert.equal(await rows().nth(0).locator('button').innerText(), first);
    // A complete id is the first result; ids that begin with it follow.
    await page.getByLabel('Id begins with').fill(have.wanted);
    await page.keyboard.press('Enter');
    await said(/^1 shown/);
    assert.equal(await rows().nth(0).locator('button').innerText(), have.wanted);
    await page.getByLabel('Id begins with').fill(have.wanted.slice(0, -1));
    await page.keyboard.press('Enter');
    const search = Date.now();
    for (let pages = 1; !/\d shown/.test(await text('.said')); pages++) {
      await page.locator('.said').filter({ hasText: /\d shown|^no match among/ }).waitFor({ timeout: 60000 });
      if (/^no match among/.test(await text('.said'))) {
        await button('Next ›').click();
        await said(/Searching/);
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
    await box.getByText('Enter either a delay').waitFor();
    await box.getByLabel('Delay from now').fill('5h');
    await shot('move');
    await box.getByRole('button', { name: 'Move' }).click();
    await toast(/to-move: due in 4 h 59 m|to-move: due in 5 h/);
    await said(/1 shown, end of the list/);
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
    await box.getByText(`${have.all} dead letters will be replayed`).waitFor();
    await box.getByText('Only: id begins with a-.').waitFor();
    await shot('replay');
    await box.getByRole('button', { name: 'Back' }).click();
    await button('Replay these…').click();
    await box.getByText(`${have.all} dead letters will be replayed`).waitFor();
    await box.getByRole('button', { name: 'Replay' }).click();
    await toast(new RegExp(`${have.all} dead letters replayed`));
    await page.getByLabel('Id begins with').fill('');
    await page.keyboard.press('Enter');
    await said(/1 shown/);
    await button('Drop these…').click();
    await box.getByText('1 dead letter will be dropped').waitFor();
    await box.getByRole('button', { name: 'Drop' }).click();
    await toast(/1 dead letter dropped/);
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
    seen.message = await text('.status pre');
  },

  // The content of a job is only text.
  async hostile() {
    for (const tab of ['Pending', 'Dead letters']) {
      await route('r');
      await page.getByRole('tab', { name: tab }).click();
      for (const id of have[tab]) {
        await rows().filter({ hasText: id }).first().getByRole('button').click();
        await page.locator('.drawer h2.id').filter({ hasText: id }).waitFor();
        await page.locator('.drawer pre').waitFor();
        assert.equal(await text('.drawer h2.id'), id);
      }
      await shot(tab === 'Pending' ? 'hostile' : 'hostile-dead');
    }
    assert.equal(await page.evaluate(() => window.owned), undefined);
    assert.equal(await page.locator('main script, main img, main iframe').count(), 0);
    // The policy blocks anything that is not escaped.
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

  // Without a mouse: a route, a job, its content, and back.
  async keys() {
    await goto('/route/%'); // typed by hand: not escaped
    await shows('Unknown route %.');
    await page.locator('#health.good').waitFor();
    await goto('/');
    await page.locator('.routes tbody tr').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('r');
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
    await page.getByRole('tab', { name: 'Pending' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.locator('[role=tab][aria-selected=true]', { hasText: 'In flight' }).waitFor();
  },

  // The daemon stops or hangs, and returns: the page then loads what was requested meanwhile.
  async gone() {
    await route('r');
    await rows().nth(0).waitFor();
    ready();
    await page.locator('#health.bad').filter({ hasText: 'does not respond' }).waitFor();
    await button('Show').click();
    if (have.answers) {
      await said(have.answers);
    }
    await shot('gone');
    ready('reported');
    await page.locator('#health.good').waitFor();
    await rows().nth(0).waitFor();
    assert.equal(await page.locator('main.stale').count(), 0);
  },

  // Its token is removed while the page is open, with a dialog on it.
  async revoked() {
    await page.goto(have.url + '/console#/route/r');
    await login(have.admin);
    await rows().nth(0).waitFor();
    await button('Pause').click();
    await page.getByRole('dialog').waitFor();
    ready();
    await shows('Unknown token.');
    assert.equal(await page.getByRole('dialog').count(), 0);
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    await login(have.later);
    await rows().nth(0).waitFor();
    assert.equal(await text('h1'), '‹r');
  },

  // The open view follows its job: another operator moves it, and it is delivered.
  async follows() {
    await route('r');
    await button('job').click();
    await page.locator('.drawer pre').waitFor();
    const due = await text('.drawer time');
    ready();
    await page.waitForFunction((was) => document.querySelector('.drawer time').innerText !== was
                               && /in [3-5] h/.test(document.querySelector('.drawer time').innerText), due);
    await button('Move…').focus();
    ready('moved');
    await page.locator('.drawer').getByText('It is gone').waitFor();
    assert.equal(await page.locator('.drawer .buttons').count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Close');
    await page.locator('.drawer pre').waitFor();
    await shot('left');
  },

  // Two operators view the same job; the other one acts first.
  async faster() {
    await route('r');
    await button('one').click();
    await button('Cancel job…').click();
    await page.getByRole('dialog').waitFor();
    ready(); // it is cancelled
    await done();
    await page.waitForTimeout(have.wait_ms);
    await page.getByRole('button', { name: 'Cancel the job' }).click();
    await toast(/one: no such job/);
    await said(/1 shown, end of the list/);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'two');
    await button('two').click();
    ready('next'); // it is delivered
    await page.locator('.drawer').getByText('It is gone').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    await button('Show').click();
    await said(/No pending jobs/);
    await shot('empty');
  },

  // The page shows the results of the submitted query, even if the user has started to type another.
  async typing() {
    await route('r');
    await rows().nth(49).waitFor();
    await page.getByLabel('Id begins with').fill('a-');
    await button('Next ›').click();
    await said(/^page 2, 10 shown, end of the list/);
    assert.equal(await page.locator('.list tbody button', { hasText: 'b-' }).count(), 10);
    await page.getByLabel('Id begins with').press('Enter');
    await said(/^30 shown, end of the list/);
    await page.getByLabel('Id begins with').fill('none-such');
    await page.getByLabel('Id begins with').press('Enter');
    await said(/^No job matches/);
  },

  // 500 routes, two of them with names and targets of the maximal length.
  async many() {
    await goto('/');
    await page.locator('.routes tbody tr').nth(have.routes - 1).waitFor();
    await page.waitForFunction(() => document.querySelector('.spark path').getAttribute('d').split('L').length > 3);
    await fits('the list');
    await shot('many');
    await page.getByRole('button', { name: 'Pending' }).click();
    assert.equal(await page.locator('.routes tbody a').first().innerText(), have.fullest);
    assert.equal(await page.locator('th[aria-sort]').innerText(), 'Pending');
    await page.getByRole('button', { name: 'Route', exact: true }).click();
    assert.equal(await page.locator('.routes tbody a').first().innerText(), have.first);
    await shot('many-sorted');
    await page.keyboard.press('/');
    await page.keyboard.type('long');
    assert.equal(await page.locator('.routes tbody tr').count(), 2);
    await shot('long');
    seen.update_ms = await page.evaluate(async () => {
      const taken = [];
      new PerformanceObserver((list) => taken.push(...list.getEntries().map((e) => e.duration)))
        .observe({ type: 'longtask' });
      document.querySelector('input[type=search]').value = '';
      await new Promise((resolve) => setTimeout(resolve, 8500));
      return Math.max(0, ...taken);
    });
    await page.getByRole('link').filter({ hasText: /^long/ }).first().click();
    await page.locator('.tabs').waitFor();
    await rows().nth(0).waitFor();
    await fits('a route');
    await rows().nth(0).getByRole('button').click();
    await page.locator('.drawer pre').waitFor();
    await fits('a job');
    await shot('long-route');
  },

  // Without animations for users who disable them.
  async still() {
    await route('r');
    await button('Pause').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await toast(/r is paused/);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('.toast')).animationName), 'none');
    await button('Resume').click();
    await button('Pause').waitFor();
  },

  // Every page, in one of the colour schemes.
  async legible() {
    await page.goto(have.url + '/console');
    await page.locator('.login').waitFor();
    await legible('login');
    await login('nothing');
    await shows('Unknown token');
    await legible('a login that is refused');
    await login(have.admin);
    await page.locator('.routes tbody tr').first().waitFor();
    await page.locator('#health.good').waitFor();
    await legible('routes');
    await route('r');
    await rows().nth(0).getByRole('button').click();
    await page.locator('.drawer pre').waitFor();
    await legible('a job');
    await page.locator('.drawer').getByRole('button', { name: 'Cancel job…' }).click();
    await legible('a dialog');
    await page.getByRole('button', { name: 'Back' }).click();
    await page.getByRole('tab', { name: 'Dead letters' }).click();
    await rows().nth(0).getByRole('button').click();
    await page.locator('.drawer pre').waitFor();
    await legible('a dead letter');
    await button('Close').click();
    await button('Pause').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await toast(/paused/);
    await legible('a route that is paused');
    await goto('/status');
    await button('Reload configuration').click();
    await page.locator('.status pre').filter({ hasText: 'Generation' }).waitFor();
    const was = await page.locator('.card').first().innerText();
    await page.waitForFunction((before) => document.querySelector('.card').innerText !== before, was);
    await legible('status');
    ready();
    await page.locator('#health.bad').waitFor();
    await goto('/');
    await legible('a daemon that is gone');
  },

  async names() {
    for (const place of ['/__proto__', '/constructor', '/toString/x', '/__proto__/__proto__', '/route/__proto__']) {
      await goto(place);
      await (place.startsWith('/route/') ? shows('Unknown route') : page.locator('.routes tbody tr').first().waitFor());
      await goto('/status');
      await page.locator('.card table').first().waitFor();
    }
    await route(have.route);
    for (const id of ['.']) {
      await rows().getByRole('button', { name: id, exact: true }).click();
      await page.locator('.drawer .fault').filter({ hasText: 'A browser cannot request' }).waitFor();
      await button('Run now').click();
      await toast(/A browser cannot request/);
      await page.keyboard.press('Escape');
    }
    await rows().filter({ hasText: '\ufffd' }).locator('button').click(); // identified by bytes
    await button('Run now').click();
    await toast(/due/);
    await page.keyboard.press('Escape');
    await page.getByRole('tab', { name: 'Dead letters' }).click();
    await rows().getByRole('button', { name: '..', exact: true }).click();
    await button('Replay').click();
    await toast(/A browser cannot request/);
  },
};

// What the scenarios of the other files use.
const kit = { have, seen, text, button, shows, goto, route, rows, said, toast, legible, fits, ready, done, shot, login,
              get page() { return page; } };
Object.assign(scenarios, operator(kit), hand(kit));

// Scenarios with another browser context.
const contexts = {
  still: [{ reducedMotion: 'reduce' }, scenarios.still],
  'legible-light': [{}, scenarios.legible],
  'legible-dark': [{ colorScheme: 'dark' }, scenarios.legible],
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
    await button('Light colours').click();
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(246, 247, 249)');
  }],
  'pictures-light': [{}, () => pictures(kit, 'light')],
  'pictures-dark': [{ colorScheme: 'dark' }, () => pictures(kit, 'dark')],
  'pictures-narrow': [{ viewport: { width: 400, height: 860 }, hasTouch: true }, () => pictures(kit, 'narrow')],
  phone: [{ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true }, async () => {
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
  await open(options);
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
