import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { fleetHtml } from '../../packages/delivery/src/emit/fleet/html.ts';
import { receiptOf, receiptWith, silent, target } from '../../packages/delivery/src/fleet/fleet.fixture.ts';
import { type Evidence, judgeFleet, nodeStates } from '../../packages/delivery/src/fleet/fleet.ts';
import { chromium, visit } from './chromium.ts';

const hostile = '</td><script>document.title="owned"</script><img src=x onerror=alert(1)>';
const words = [
  receiptOf('a', 'confirmed'),
  receiptOf('b', 'rolled-back', 'this', hostile),
  receiptOf('d', 'same', 'older'),
  silent('c'),
] as const;
const page = fleetHtml(judgeFleet(new Map(words), ['x"><b>'], target(2)), 'receipts');

const bodyOf = (text: string): string => text.slice(text.indexOf('<header>'), text.lastIndexOf('</main>'));
const namesIn = (text: string): readonly string[] =>
  [...text.matchAll(/<td class="node">(?:<a [^>]*>)?([^<]*)/g)].map(([, name]) => name ?? '');
const hrefOf = (text: string): string | undefined => /<td class="node"><a href="([^"]*)"/.exec(text)?.[1];

/** One node in each state, and more of them whose names sort differently. */
const everyState = [
  receiptOf('h', 'confirmed'),
  receiptOf('g', 'same', 'older'),
  receiptOf('f', 'same', 'older'),
  silent('e'),
  receiptOf('z', 'chosen', 'nothing', 'an operator'),
  receiptOf('c', 'refused', 'this', 'too old'),
  receiptOf('y', 'refused', 'this', 'too old'),
  receiptOf('b', 'rolled-back', 'this', 'web'),
  receiptOf('w', 'partial', 'this', 'without shop/cart'),
  receiptOf('i', 'held', 'older', 'x'),
] as const;
const staged = {
  ...target(1),
  nodes: everyState.map(([node]) => node),
  waves: [
    { name: 'first', nodes: ['b', 'c', 'e', 'f', 'h', 'i', 'w', 'y', 'z'] },
    { name: 'last', nodes: ['g'] },
  ],
};

describe('the page', () => {
  test('is self-contained: its policy permits its own script and style and no address', () => {
    const [, policy = ''] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(page) ?? [];
    const [, script = ''] = /<script>([^]*?)<\/script>/.exec(page) ?? [];
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `script-src 'sha256-${hash('sha256', script, 'base64')}'`,
      `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
      "base-uri 'none'",
      "form-action 'none'",
    ]);
    expect(page).not.toMatch(/https?:|@import|url\(/);
  });

  test('shows receipts and names of nodes as text', () => {
    expect(bodyOf(page)).not.toMatch(/<script|<img|<b>x|x"><b>/);
    expect(bodyOf(page)).toContain('&lt;/td&gt;&lt;script&gt;document.title=&quot;owned&quot;&lt;/script&gt;');
  });

  test('has the same bytes for any order of receipts', () => {
    expect(fleetHtml(judgeFleet(new Map(words.toReversed()), ['x"><b>'], target(2)), 'receipts')).toBe(page);
  });

  test('sorts by severity, then by name; the counts of all states and waves come before any node', () => {
    const text = fleetHtml(judgeFleet(new Map(everyState), [], staged), '');
    expect(namesIn(text).join('')).toBe('ibwcyzefgh');
    expect([...text.matchAll(/<section id="([^"]*)"/g)].map(([, state]) => state)).toEqual(nodeStates);
    const summary = bodyOf(text).slice(0, bodyOf(text).indexOf('<section'));
    const tiles = [...summary.matchAll(/href="#([^"]*)"><strong>(\d+)/g)].map(
      ([, state, count]) => `${state} ${count}`,
    );
    expect(tiles).toEqual(nodeStates.map((state) => `${state} ${state === 'refused' ? 2 : 1}`));
    expect(summary.replaceAll(/<[^>]*>/g, ' ').replaceAll(/ +/g, ' ')).toContain('2 last closed 1 1 waits');
  });

  test('is dated by its newest receipt, says what to do next, and has a column where it tells something', () => {
    const text = fleetHtml(judgeFleet(new Map(everyState), [], staged), '');
    const head = bodyOf(text).slice(0, bodyOf(text).indexOf('</header>'));
    expect(head).toContain('<p class="verdict">Newest receipt: 2026-12-01T12:00:00Z</p>');
    expect(head).toMatch(/<p class="verdict next">Next: free i: /);
    const columns = (state: string): readonly string[] => {
      const [, section = ''] = new RegExp(`<section id="${state}">([^]*?)</section>`).exec(text) ?? [];
      return [...section.matchAll(/<th scope="col">([^<]*)/g)].map(([, title]) => title ?? '');
    };
    expect(columns('silent')).toEqual(['Node', 'Wave', 'Served by', 'Why']);
    expect(columns('runs')).toEqual(['Node', 'Wave', 'Served by', 'Generation', 'Reported at']);
    const [node, { receipt, ...evidence }] = receiptOf('h', 'confirmed');
    const drained = new Map([
      [node, { ...evidence, receipt: receipt && { ...receipt, draining: 'operator' as const } }],
    ]);
    expect(fleetHtml(judgeFleet(drained, []), '')).toContain('<td class="draining">operator</td>');
  });

  test('folds nodes with nothing to say of, and no other', () => {
    const text = fleetHtml(
      judgeFleet(new Map([...everyState, receiptWith([{ name: 'web', healthy: false }])]), []),
      '',
    );
    const folded = [...text.matchAll(/<details>[^]*?<\/details>/g)].flatMap(([fold]) => namesIn(fold));
    expect(folded).toEqual(['h']);
    expect(namesIn(text)).toContain('a');
  });

  test.each([
    ['receipts', 'a.1.json', 'receipts/a.1.json'],
    ['', 'a.1.json', 'a.1.json'],
    ['../..', 'rack 1/a.1.json', '../../rack%201/a.1.json'],
    ['', 'javascript:alert(1)/a.1.json', 'javascript%3Aalert(1)/a.1.json'],
    ['//evil.example', '"><b>?#/a.1.json', 'evil.example/%22%3E%3Cb%3E%3F%23/a.1.json'],
    ['\ud800', 'a.1.json', '%EF%BF%BD/a.1.json'],
  ])('in a folder from which receipts are %j links to %j as %s', (folder, file, href) => {
    const [node, evidence] = receiptOf('a', 'confirmed');
    expect(hrefOf(fleetHtml(judgeFleet(new Map([[node, { ...evidence, file }]]), []), folder))).toBe(href);
  });

  test('a silent node has no link: what is not signed is not shown as its word', () => {
    const text = fleetHtml(judgeFleet(new Map([silent('c', 'number 9: its signature is missing')]), []), 'receipts');
    expect(namesIn(text)).toEqual(['c']);
    expect(hrefOf(text)).toBeUndefined();
  });
});

const many = 10_000;
const nameOf = (index: number): string => `ip-10-0-${index >> 8}-${index & 255}.internal`;
const fleetOf = (evidence: (node: string, index: number) => readonly [string, Evidence]): string => {
  const all = Array.from({ length: many }, (_, index) => evidence(nameOf(index), index));
  return fleetHtml(judgeFleet(new Map(all), []), 'receipts');
};
const mostlyWell = fleetOf((node, index) =>
  index % 100 === 0 ? receiptOf(node, 'refused', 'this', 'too old') : receiptOf(node, 'confirmed'),
);

describe('with 10,000 nodes', () => {
  test('it has at most 300 bytes for each', () => {
    expect(Buffer.byteLength(mostlyWell)).toBeLessThan(300 * many);
    expect(namesIn(mostlyWell)).toHaveLength(many);
  });

  test('all of them bad, it shows a hundred of a state, and says a common reason once with its count', () => {
    const text = fleetOf((node) => receiptOf(node, 'refused', 'this', 'too old'));
    const shown = namesIn(text.replaceAll(/<details>[^]*?<\/details>/g, ''));
    expect(shown).toHaveLength(100);
    expect(text).toContain('<summary>and 9,900 more</summary>');
    expect(text).toContain('<li>10,000 × too old</li>');
  });
});

describe.skipIf(chromium === undefined)('a browser (needs Chromium)', () => {
  const browserMs = 60_000;

  test('shows every node under its state', { timeout: browserMs }, async () => {
    const steps =
      'document.title = [...document.querySelectorAll("section tbody tr")].map((row) => row.cells[0].textContent + " " + row.closest("section").id).join("|")';
    const { dom, console: lines } = await visit(page, steps);
    expect(lines).toEqual([]);
    expect(dom).toContain('<title>b rolled-back|c silent|e silent|d waits|a runs</title>');
  });

  // Chromium's minimal width is 500; a frame is as narrow as a phone.
  const inFrame = (steps: string): string =>
    `for (const script of document.querySelectorAll("script")) script.remove(); const frame = document.createElement("iframe"); frame.style.cssText = "width:390px;height:800px"; frame.srcdoc = document.documentElement.outerHTML; frame.onload = () => { const doc = frame.contentDocument; ${steps} }; document.body.replaceChildren(frame);`;
  const measure = `const title = [doc.documentElement.scrollWidth <= doc.documentElement.clientWidth ? "fits" : "too wide " + doc.documentElement.scrollWidth];
    const lines = (element) => { const range = doc.createRange(); range.selectNodeContents(element); return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size; };
    for (const cell of doc.querySelectorAll("th, h2, section .wave, .generation, .at, .tiles span, .waves span, summary")) if (lines(cell) > 1) title.push(cell.textContent + " is broken");
    for (const cell of doc.querySelectorAll("section td")) if (cell.scrollWidth > cell.clientWidth + 1) title.push(cell.textContent + " runs over");
    document.title = title.join("|");`;

  test.each([390, 1280, 1920])('%i pixels wide has room for every column', { timeout: browserMs }, async (width) => {
    const long = receiptOf(
      `${'node-of-a-long-name.'.repeat(12)}example`,
      'refused',
      'this',
      `it says ${'word'.repeat(50)}`,
    );
    const text = fleetHtml(judgeFleet(new Map([...everyState, long]), ['x'], staged), 'receipts');
    const steps = width < 500 ? inFrame(measure) : `const doc = document; ${measure}`;
    const { dom } = await visit(text, steps, width);
    expect(/<title>([^<]*)/.exec(dom)?.[1]).toBe('fits');
  });

  test('filters 10,000 nodes while typing, opens matches and folds them again', {
    timeout: browserMs,
  }, async () => {
    const steps = `const search = document.getElementById("search");
      const type = (text) => { const before = performance.now(); search.value = text; search.dispatchEvent(new Event("input")); document.body.offsetHeight; return performance.now() - before; };
      const seen = () => [...document.querySelectorAll("section tbody tr")].filter((row) => row.checkVisibility()).length;
      const hitsText = () => document.getElementById("hits").textContent;
      const all = seen();
      const slowest = Math.max(type("ip"), type("ip-10-0-3-"), type("Runs 10-0-3-9."));
      const found = [seen(), hitsText(), document.querySelectorAll("section:not([hidden])").length];
      type("");
      document.title = JSON.stringify({ all, found, after: seen(), open: document.querySelectorAll("details[open]").length, isQuick: slowest < 3000 });`;
    const { dom, console: lines } = await visit(mostlyWell, steps);
    expect(lines).toEqual([]);
    expect(JSON.parse(/<title>([^<]*)/.exec(dom)?.[1] ?? '')).toEqual({
      all: 100,
      found: [1, '1 of 10,000 nodes', 1],
      after: 100,
      open: 0,
      isQuick: true,
    });
  });
});
