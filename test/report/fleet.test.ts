import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { fleetHtml } from '../../packages/renderer/src/emit/fleet/html.ts';
import { said, silent, target } from '../../packages/renderer/src/fleet/fleet.fixture.ts';
import { judgeFleet } from '../../packages/renderer/src/fleet/fleet.ts';
import { chromium, visit } from './chromium.ts';

const hostile = '</td><script>document.title="owned"</script><img src=x onerror=alert(1)>';
const words = [
  said('a', 'confirmed'),
  said('b', 'rolled-back', 'this', hostile),
  said('d', 'same', 'older'),
  silent('c'),
] as const;
const page = fleetHtml(judgeFleet(new Map(words), ['x"><b>'], target(2)));

test('the page is whole by itself: its policy lets in its own style, no script and no address', () => {
  const [, policy = ''] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
  const style = /<style>([^]*?)<\/style>/.exec(page)?.[1] ?? '';
  expect(policy.split('; ')).toEqual([
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ]);
  expect(page).not.toMatch(/<script|<img|https?:|@import|url\(|<b>/);
});

test('the same fleet is the same bytes, whatever order its receipts came in', () => {
  expect(fleetHtml(judgeFleet(new Map(words.toReversed()), ['x"><b>'], target(2)))).toBe(page);
});

test.skipIf(chromium === undefined)(
  'a browser shows every node with its words (needs Chromium)',
  async () => {
    const steps =
      'document.title = [...document.querySelectorAll("tbody tr")].map((row) => row.cells[0].textContent + " " + row.cells[2].textContent + " " + getComputedStyle(row.cells[2]).borderLeftStyle).join("|")';
    // The page runs no script; the steps of this test are let in beside its own policy.
    const open = page.replace("style-src '", "script-src 'self'; style-src '");
    const { dom, console: lines } = await visit(open, steps);
    expect(lines).toEqual([]);
    expect(dom).toContain(
      '<title>b rolled back solid|c silent solid|e silent solid|d waits solid|a runs solid</title>',
    );
  },
  60_000,
);
