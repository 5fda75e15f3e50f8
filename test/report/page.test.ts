import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { PageData } from '../../packages/renderer/src/emit/report/data.ts';
import { inScript } from '../../packages/renderer/src/emit/report/html.ts';
import { pages, pageText } from '../../tools/page.ts';
import { chromium, visit } from './chromium.ts';
import { bundle, pageOf } from './example.ts';

const page = pageOf(bundle('02-node-port'), bundle('03-load-balancer'));

test.each(pages)('the module of $script is up to date', async (source) => {
  // `./dev golden` rewrites it.
  expect(readFileSync(source.module, 'utf8')).toBe(await pageText(source));
});

test('the page has no foreign address, and its policy permits only its own script and style', () => {
  const [, policy = ''] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
  const script = /<script>([^]*?)<\/script>/.exec(page)?.[1] ?? '';
  const style = /<style>([^]*?)<\/style>/.exec(page)?.[1] ?? '';
  expect(policy.split('; ')).toEqual([
    "default-src 'none'",
    `script-src 'sha256-${hash('sha256', script, 'base64')}'`,
    `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ]);
  expect(page.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|src=|@import|url\(/);
});

const hostile = [
  '</script><script>alert(1)</script>',
  '<!--<script>',
  ']]>',
  '\u2028',
  '\'"><img src=x onerror=alert(1)>',
];

test.each(hostile)('%j in a text stays text in the data', (text) => {
  const data = { verdict: text, services: [], flows: [] } as unknown as PageData;
  expect(inScript(data)).not.toMatch(/[<>&\u2028\u2029]/);
  expect(JSON.parse(inScript(data))).toEqual(data);
});

test('a name with mark-up adds no script to the page', () => {
  const scripts = (text: string): number => text.match(/<script/gi)?.length ?? 0;
  for (const name of hostile) {
    const made = pageOf(bundle('02-node-port'), bundle('03-load-balancer'), name);
    expect(scripts(made)).toBe(scripts(page));
    expect(made).not.toContain('<img');
  }
});

/** Skipped without Chromium: the titles say so in the summary of skipped tests. */
const noBrowser = chromium === undefined;
const browserMs = 90_000;

test.skipIf(noBrowser)(
  '(needs chromium) the page shows Services, flows, findings and the drawing',
  { timeout: browserMs },
  async () => {
    const { dom, console } = await visit(page);
    expect(console).toEqual([]);
    expect(dom).toContain('data-ready="true"');
    expect(dom.match(/role="option"/g)?.length).toBeGreaterThan(10);
    expect(dom).toMatch(/class="box added"><title>shop\/api \(added\)/);
    expect(dom).toMatch(/class="edge removed"/);
    expect(dom).toMatch(/<td class="level error">error<\/td><td>EXTERNAL_IP/);
  },
);

test.skipIf(noBrowser)('(needs chromium) keys and search select a flow', { timeout: browserMs }, async () => {
  const steps = `
    const search = document.getElementById('flow-search');
    search.value = 'shop/audit closes 10.96'; search.dispatchEvent(new Event('input'));
    const list = document.getElementById('flow-list');
    for (const key of ['End', 'ArrowUp', 'ArrowDown'])
      list.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));`;
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

test.skipIf(noBrowser)(
  '(needs chromium) 10,000 Services, flows and findings give a small document',
  { timeout: browserMs },
  async () => {
    const json = /id="data">([^]*?)<\/script>/.exec(page)?.[1] ?? '';
    const data = JSON.parse(json) as PageData;
    const services = Array.from({ length: 10_000 }, (_, at) => ({ ...data.services[0]!, name: `shop/web-${at}` }));
    const flows = Array.from({ length: 20_000 }, (_, at) => ({
      ...data.flows[0]!,
      services: `shop/web-${at % 10_000}`,
    }));
    const note = { ...data.findings![0]!, level: 'note' as const };
    const findings = [...data.findings!, ...Array.from({ length: 10_000 }, () => note)];
    const large = page.replace(json, () => inScript({ ...data, services, flows, findings }));
    const steps = `document.querySelector('#findings details:last-child').open = true; document.getElementById('service-list').dispatchEvent(new KeyboardEvent('keydown', { key: 'End', cancelable: true }));`;
    const { dom, console } = await visit(large, steps);
    expect(console).toEqual([]);
    expect(dom).toContain('10000 of 10000');
    expect(dom).toContain('20000 of 20000');
    expect(dom).toMatch(/aria-selected="true"[^>]*aria-posinset="10000"/);
    expect(dom).toMatch(/<summary>100\d\d notes<\/summary>/);
    expect(dom).toMatch(/\d+ more; sluice policy prints all/);
    expect(dom.match(/<tr>/g)?.length).toBeLessThan(600);
    expect(dom.match(/role="option"/g)?.length).toBeLessThan(200);
  },
);

test.skipIf(noBrowser).each([500, 820, 1280])(
  '(needs chromium) in a window of %i pixels nothing overflows, and every part is reachable by Tab',
  { timeout: browserMs },
  async (width) => {
    const steps = `
      const root = document.documentElement;
      root.dataset.overflow = String(root.scrollWidth - root.clientWidth);
      const reached = [...document.querySelectorAll('a, button, input, select, summary, [tabindex="0"]')]
        .filter((part) => part.tabIndex === 0 && part.getClientRects().length > 0);
      root.dataset.reached = reached.map((part) => part.id || part.tagName).join(' ');`;
    const { dom, console } = await visit(page, steps, width);
    expect(console).toEqual([]);
    expect(dom).toContain('data-overflow="0"');
    const [, reached = ''] = /data-reached="([^"]*)"/.exec(dom) ?? [];
    expect(reached.split(' ')).toEqual(
      expect.arrayContaining(['service-search', 'service-list', 'flow-search', 'flow-list', 'SUMMARY', 'drawing-all']),
    );
  },
);
