import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PageData } from '../../packages/review/src/emit/report/data.ts';
import { inScript } from '../../packages/review/src/emit/report/html.ts';
import { severities, severityLabels } from '../../packages/review/src/report/severity.ts';
import { shapes } from '../../packages/review/src/emit/report/shapes.ts';
import { pages, pageText } from '../../tools/page.ts';
import { chromium, visit } from './chromium.ts';
import { bundle, pageOf } from './example.ts';
import { shopPage, shopReport } from './shop.ts';

const page = pageOf(bundle('02-node-port'), bundle('03-load-balancer'));
const shop = shopPage();

test.each(pages)('the module of $script is up to date', async (source) => {
  // `./dev golden` rewrites it.
  expect(readFileSync(source.module, 'utf8')).toBe(await pageText(source));
});

test.each([page, shop])(
  'page %# has no foreign address, and its policy permits only its own script and style',
  (text) => {
    const [, policy = ''] = /Content-Security-Policy" content="([^"]*)"/.exec(text) ?? [];
    const script = /<script>([^]*?)<\/script>/.exec(text)?.[1] ?? '';
    const style = /<style>([^]*?)<\/style>/.exec(text)?.[1] ?? '';
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `script-src 'sha256-${hash('sha256', script, 'base64')}'`,
      `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
      "base-uri 'none'",
      "form-action 'none'",
    ]);
    expect(text.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|src=|@import|url\(| style=/);
  },
);

const hostile = [
  '</script><script>alert(1)</script>',
  '<!--<script>',
  ']]>',
  '\u2028',
  '\'"><img src=x onerror=alert(1)>',
  '" onmouseover="alert(1)',
];

test.each(hostile)('%j in a text stays text in the data', (text) => {
  const data = { services: [], others: [text], flows: [] } as unknown as PageData;
  expect(inScript(data)).not.toMatch(/[<>&\u2028\u2029]/);
  expect(JSON.parse(inScript(data))).toEqual(data);
});

test.each(hostile)('%j as the name of anything adds no element and no attribute', (name) => {
  const report = shopReport();
  const [effect, finding] = [report.effects[0]!, report.policy!.findings[0]!];
  const [service] = report.services;
  const evil = {
    ...report,
    effects: [{ ...effect, sentence: name, subjects: [{ name, isService: true, details: [name] }] }, ...report.effects],
    services: [
      { ...service!, service: name, severity: 'opens' as const },
      { ...service!, service: `${name}/x` },
      ...report.services,
    ],
    nodes: report.nodes.map((node) => ({ ...node, name, zone: name })),
    policy: { ...report.policy!, findings: [{ ...finding, subject: name, message: name, hint: name, path: name }] },
    diff: { ...report.diff, settings: [{ file: name, old: [name], new: [] }] },
    whatIf: [{ kind: 'node' as const, name, lost: [name], over: [name], rules: [name] }],
  };
  const made = shopPage(name, evil);
  const count = (text: string, what: RegExp): number => text.match(what)?.length ?? 0;
  expect(count(made, /<script/gi)).toBe(count(shop, /<script/gi));
  expect(made).not.toMatch(/<img|<!--|\]\]><|<[^>]* onmouseover=/i);
});

test('every severity of a change has its tile, worst first, with its shape', () => {
  const tiles = [
    ...shop.matchAll(
      /<a class="tile ([a-z-]+)" href="#changes\/([a-z-]+)"><svg class="shape ([a-z-]+)"[^>]*><use href="#shape-([a-z-]+)"/g,
    ),
  ];
  expect(tiles.map(([, ...names]) => names)).toEqual(
    severities.map((severity) => Array.from({ length: 4 }, () => severity)),
  );
});

test('docs/review.md has the severities with their shapes, in their order', () => {
  const docs = readFileSync(join(import.meta.dirname, '../../docs/review.md'), 'utf8');
  const rows = severities.map((severity) => `| ${shapes[severity].name} | ${severityLabels[severity]} |`);
  const found = rows.map((row) => docs.indexOf(row));
  expect(found).not.toContain(-1);
  expect(found).toEqual(found.toSorted((a, b) => a - b));
});

test('without a script the page has the sentences with their Services, and the policy', () => {
  const body = shop.slice(0, shop.indexOf('<script'));
  expect(body).toContain('Has no endpoint left: connections are rejected');
  expect(body).toContain('<a href="#services/payments%2Fledger">payments/ledger</a>');
  expect(body.match(/Exchanges endpoints/g)).toHaveLength(1);
  expect(body).toContain('LAST_ENDPOINT');
});

test('failures that were computed have a view, worst first', () => {
  const whatIf = [
    { kind: 'node' as const, name: 'node-3', lost: ['payments/ledger:http 80/TCP'], over: [], rules: ['SINGLE_NODE'] },
  ];
  expect(shop).not.toContain('id="view-what-if"');
  expect(shopPage('rendered', { ...shopReport(), whatIf })).toMatch(
    /id="view-what-if"[^]*<b>node-3<\/b>[^]*payments\/ledger:http 80\/TCP[^]*SINGLE_NODE/,
  );
});

/** Skipped without Chromium: the titles say so in the summary of skipped tests. */
const noBrowser = chromium === undefined;
const browserMs = 90_000;

test.skipIf(noBrowser)('(needs chromium) keys and search select a flow', { timeout: browserMs }, async () => {
  const steps = `
    location.hash = '#flows';
    setTimeout(() => {
      const search = document.getElementById('flow-search');
      search.value = 'shop/audit 10.96'; search.dispatchEvent(new Event('input'));
      const list = document.getElementById('flow-list');
      for (const key of ['End', 'ArrowUp', 'ArrowDown'])
        list.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    }, 200);`;
  const { dom, console } = await visit(page, steps);
  expect(console).toEqual([]);
  const [, count = ''] = /id="flow-count"[^>]*>([^<]*)</.exec(dom) ?? [];
  expect(count).toMatch(/^\d+ of \d+$/);
  const [found, all] = count.split(' of ').map(Number) as [number, number];
  expect(found).toBeGreaterThan(0);
  expect(found).toBeLessThan(all);
  expect(dom).toMatch(/id="flow-list"[^>]*aria-activedescendant="flow-list-\d+"/);
  expect(dom).toMatch(/<dt>Service<\/dt><dd>shop\/audit<\/dd>/);
  expect(dom).toMatch(/<code>sluice trace --node node-\d /);
});

test.skipIf(noBrowser)(
  '(needs chromium) a script that is not the page\u2019s own does not run',
  { timeout: browserMs },
  async () => {
    const foreign = page.replace('</body>', () => '<script>document.title = "owned"</script></body>');
    const { dom, console } = await visit(foreign);
    expect(dom).not.toContain('<title>owned');
    expect(console.join()).toMatch(/Content Security Policy/);
  },
);
