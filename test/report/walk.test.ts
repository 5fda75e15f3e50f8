// @module-tag test
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { atTier } from '@sluice/testing';
import { reportOn } from '../../packages/review/src/report/report.ts';
import { pictures, picturesFolder } from '../../tools/pictures.ts';
import { openTab, type Tab } from '../docs/tab.ts';
import { chromium, type Scheme } from './chromium.ts';
import { difference, readPng } from './png.ts';
import { shop, shopPage, shopReport } from './shop.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const walkMs = 120_000;

const views = [
  'changes',
  'drawing',
  'services/shop%2Fweb',
  'services/payments%2Fcards',
  'cluster',
  'cluster/namespace/shop/zone/eu-a',
  'cluster/by/node',
  'flows',
  'policy',
  'what-if',
  'rules',
] as const;

const whatIf = [
  {
    kind: 'node' as const,
    name: 'node-3',
    lost: ['payments/ledger:http 80/TCP'],
    over: ['shop/web:http 80/TCP 100 %'],
    rules: ['SINGLE_NODE'],
  },
  { kind: 'zone' as const, name: 'eu-c', lost: [], over: [], rules: [] },
];

describe.skipIf(chromium === undefined)('(needs chromium) the page of a report', () => {
  let tab: Tab;
  let folder = '';
  let url = '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-walk-'));
    const file = join(folder, 'report.html');
    // The tools of the test need a policy that lets them run; what the page itself may do is tested in page.test.ts.
    writeFileSync(file, shopPage('rendered', { ...shopReport(), whatIf }));
    url = `file://${file}`;
    tab = await openTab('document.documentElement.dataset.ready');
  }, walkMs);
  afterAll(async () => {
    await tab.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const open = async (view: string, width = 1280, scheme: Scheme = 'light'): Promise<void> => {
    // Another address: else the browser goes to the hash of the page that it has.
    await tab.open('about:blank#', width, scheme, 'true');
    await tab.open(`${url}#${view}`, width, scheme);
  };

  const widths = atTier<readonly (readonly [number, Scheme])[]>({
    quick: [
      [360, 'light'],
      [1280, 'dark'],
    ],
    all: [
      [360, 'light'],
      [360, 'dark'],
      [820, 'light'],
      [1280, 'light'],
      [1280, 'dark'],
      [1920, 'light'],
    ],
  });

  test.each(widths)(
    'at %i pixels, %s, no view complains, asks for anything, is too wide or has a serious finding of axe',
    { timeout: 2 * walkMs },
    async (width, scheme) => {
      for (const view of views) {
        await open(view, width, scheme);
        const seen = {
          view,
          beside: Math.max(0, Number(await tab.run('document.documentElement.scrollWidth - innerWidth'))),
          shown: await tab.run(`document.querySelector('.view.current')?.dataset.view`),
          complaints: tab.complaints(),
          requests: tab.requests().filter((asked) => !asked.startsWith(url)),
          findings: await findings(),
        };
        expect(seen).toEqual({
          view,
          beside: 0,
          shown: view.split('/')[0],
          complaints: [],
          requests: [],
          findings: [],
        });
      }
    },
  );

  /** Serious and critical findings of axe: the rule with the first element. The tool itself is put into the page by the browser. */
  async function findings(): Promise<unknown> {
    return tab.run(`(async () => {
      ${axe};
      const { violations } = await axe.run(document, { resultTypes: ['violations'] });
      return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => id + ' ' + nodes[0].html);
    })()`);
  }

  test('of a change of nothing, every view says so in words', { timeout: walkMs }, async () => {
    const report = reportOn({
      old: shop.old,
      updated: shop.old,
      policy: { settings: {}, today: '2026-11-21' },
      whatIf: [],
    });
    const file = join(folder, 'nothing.html');
    writeFileSync(file, shopPage('rendered', report));
    const said: Record<string, unknown> = {};
    for (const view of ['changes', 'drawing', 'flows', 'what-if']) {
      await tab.open('about:blank#', 360, 'dark', 'true');
      await tab.open(`file://${file}#${view}`, 360, 'dark');
      expect(tab.complaints()).toEqual([]);
      said[view] = await tab.run(`document.querySelector('.view.current .empty')?.textContent`);
    }
    expect(said).toEqual({
      changes: 'Nothing changes.',
      drawing: 'No Service changes.',
      flows: 'No flow changes.',
      'what-if': expect.stringMatching(/^No failure /),
    });
  });

  test('a change of one Service has its drawing on the first screen, a larger one has not', {
    timeout: walkMs,
  }, async () => {
    const [service] = shopReport().services.filter(({ service: name }) => name === 'shop/web');
    const file = join(folder, 'one.html');
    writeFileSync(file, shopPage('rendered', { ...shopReport(), services: [service!] }));
    await tab.open('about:blank#', 1280, 'light', 'true');
    await tab.open(`file://${file}#changes`, 1280, 'light');
    const drawn = `document.querySelectorAll('#view-changes .drawing').length`;
    expect(await tab.run(drawn)).toBe(1);
    await open('changes');
    expect(await tab.run(drawn)).toBe(0);
  });

  test('on a telephone what a failure takes stands beside its label', { timeout: walkMs }, async () => {
    await open('what-if', 360);
    const lefts = `[...document.querySelectorAll('#view-what-if td > *')].map((part) => Math.round(part.getBoundingClientRect().left))`;
    const places = (await tab.run(lefts)) as readonly number[];
    expect(places.length).toBeGreaterThan(0);
    expect(new Set(places).size).toBe(1);
    expect(places[0]).toBeGreaterThan(100);
  });

  test('names of the greatest length fit into a window of 360 pixels', { timeout: walkMs }, async () => {
    const name = `${'n'.repeat(63)}/${'s'.repeat(63)}`;
    const report = shopReport();
    const [service, finding] = [
      report.services.find((one) => one.service === 'shop/web')!,
      report.policy!.findings[0]!,
    ];
    const long = {
      ...report,
      services: [{ ...service, service: name }],
      effects: report.effects.map((effect) => ({ ...effect, subjects: [{ name, isService: true, details: [name] }] })),
      nodes: report.nodes.map((node) => ({ ...node, name: `${node.name}-${'x'.repeat(240)}` })),
      policy: { ...report.policy!, findings: [{ ...finding, subject: name, message: name, path: name }] },
    };
    const file = join(folder, 'long.html');
    writeFileSync(file, shopPage(name, long));
    for (const view of ['changes', `services/${encodeURIComponent(name)}`, 'cluster', 'policy', 'drawing', 'rules']) {
      await tab.open('about:blank#', 360, 'light', 'true');
      await tab.open(`file://${file}#${view}`, 360, 'light');
      const beside = Number(await tab.run('document.documentElement.scrollWidth - innerWidth'));
      expect({ view, beside: Math.max(0, beside) }).toEqual({ view, beside: 0 });
    }
  });

  test('axe sees what is wrong', async () => {
    await open('changes');
    await tab.run(`document.querySelector('main').insertAdjacentHTML('beforeend', '<button></button>')`);
    expect(await findings()).toEqual(['button-name <button></button>']);
  });

  test('keys alone reach a view, a Service in its list, and move the drawing', { timeout: walkMs }, async () => {
    await open('changes');
    const focused = async (): Promise<string> =>
      String(await tab.run(`document.activeElement.id || document.activeElement.textContent`));
    for (let tabs = 0; !(await focused()).startsWith('Services') && tabs < 40; tabs++) await tab.press('Tab');
    await tab.press('Enter');
    expect(await tab.run('location.hash')).toBe('#services');
    for (let tabs = 0; (await focused()) !== 'service-list' && tabs < 10; tabs++) await tab.press('Tab');
    for (const key of ['Home', 'ArrowDown', 'ArrowDown']) await tab.press(key);
    expect(await tab.run(`document.querySelector('.service-title').textContent`)).toContain('shop/api');
    expect(await tab.run('location.hash')).toBe('#services/shop%2Fapi');
    await open('drawing');
    const viewBox = async (): Promise<readonly number[]> =>
      String(await tab.run(`document.querySelector('#canvas svg').getAttribute('viewBox')`))
        .split(' ')
        .map(Number);
    await tab.run(`document.getElementById('canvas').focus()`);
    const [, top = 0, , height = 0] = await viewBox();
    await tab.press('ArrowDown');
    expect((await viewBox())[1]).toBeGreaterThan(top);
    await tab.press('+');
    expect((await viewBox())[3]).toBeLessThan(height);
    await tab.press('0');
    // All of it: the last Service is in sight, too.
    expect(await tab.run(`document.getElementById('drawing-count').textContent`)).toMatch(
      /^19 changed Services, 1 to 19 in sight/,
    );
  });

  test('two fingers zoom the drawing and one moves it, on a telephone', { timeout: walkMs }, async () => {
    await open('drawing', 360);
    await tab.run(`document.getElementById('canvas').scrollIntoView()`);
    const seen = async (): Promise<readonly number[]> =>
      String(await tab.run(`document.querySelector('#canvas svg').getAttribute('viewBox')`))
        .split(' ')
        .map(Number);
    const [, , width = 0] = await seen();
    await tab.touch('touchStart', { x: 150, y: 300 }, { x: 210, y: 300 });
    await tab.touch('touchMove', { x: 120, y: 300 }, { x: 240, y: 300 });
    await tab.touch('touchEnd');
    const [, top = 0, zoomed = 0] = await seen();
    expect(zoomed / width).toBeCloseTo(0.5, 1);
    await tab.touch('touchStart', { x: 180, y: 400 });
    await tab.touch('touchMove', { x: 180, y: 250 });
    await tab.touch('touchEnd');
    expect((await seen())[1]).toBeGreaterThan(top);
    // Neither was a click.
    expect(await tab.run('location.hash')).toBe('#drawing');
  });

  test('Enter opens the Service in the middle of the drawing', async () => {
    await open('drawing');
    await tab.run(`document.getElementById('canvas').focus()`);
    await tab.press('Enter');
    expect(await tab.run('location.hash')).toMatch(/^#services\/\w+%2F/);
  });

  test('the drawing has every frontend, also node ports and load-balancer addresses', async () => {
    await open('drawing');
    await tab.run(`document.getElementById('canvas').focus()`);
    const titles: string[] = [];
    for (let page = 0; page < 12; page++) {
      const seen = await tab.run(
        `[...document.querySelectorAll('#canvas title')].map(({ textContent }) => textContent)`,
      );
      titles.push(...(seen as readonly string[]));
      await tab.press('PageDown');
    }
    expect(titles).toEqual(
      expect.arrayContaining([
        '30022/TCP (node port), comes of shop/web',
        '203.0.113.20:80 (load balancer) of media/stream',
        '10.244.3.9:8080 (100 %), leaves of payments/ledger',
      ]),
    );
  });

  test('the address leads to a part of the cluster, and links lead on', async () => {
    await open('cluster');
    await tab.run(
      `[...document.querySelectorAll('.matrix a')].find(({ textContent }) => textContent === 'shop').click()`,
    );
    await tab.run('new Promise(requestAnimationFrame)');
    expect(await tab.run('location.hash')).toBe('#cluster/namespace/shop');
    expect(await tab.run(`document.querySelector('.matrix tbody th a').getAttribute('href')`)).toMatch(
      /^#services\/shop%2F/,
    );
  });

  test('on paper every view has its content', { timeout: walkMs }, async () => {
    await open('changes');
    await tab.run(`dispatchEvent(new Event('beforeprint'))`);
    const empty = await tab.run(
      `[...document.querySelectorAll('.view')].filter((view) => view.textContent.trim().length < 40).map(({ dataset }) => dataset.view)`,
    );
    expect(empty).toEqual([]);
    expect(await tab.run(`document.querySelectorAll('#flow-list .row').length`)).toBe(41);
    expect((await tab.paper()).subarray(0, 5).toString()).toBe('%PDF-');
  });

  test('nothing moves by itself for readers who want that', async () => {
    await open('changes');
    expect(
      await tab.run(
        `[...document.querySelectorAll('*')].filter((part) => { const { transitionDuration, animationName } = getComputedStyle(part); return transitionDuration !== '0s' || animationName !== 'none'; }).length`,
      ),
    ).toBe(0);
  });

  test.each(pictures)(
    'the picture $name of the documentation is what the page shows',
    { timeout: walkMs },
    async ({ name, view, width, scheme }) => {
      await open(view, width, scheme);
      const [now, stored] = [
        readPng(await tab.screenshot()),
        readPng(readFileSync(join(picturesFolder, `${name}.png`))),
      ];
      expect([now.width, now.height]).toEqual([stored.width, stored.height]);
      // Of the same browser and fonts below 0.002; another view is above 0.03.
      expect(difference(now, stored)).toBeLessThan(0.02);
    },
  );

  test('pictures of other views differ', () => {
    const [first, ...others] = pictures
      .filter(({ width }) => width === 1280)
      .map(({ name }) => readPng(readFileSync(join(picturesFolder, `${name}.png`))));
    for (const other of others) expect(difference(first!, other)).toBeGreaterThan(0.02);
  });
});
