import { receiptOutcomes } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { fleetHtml } from '../../packages/delivery/src/emit/fleet/html.ts';
import { receiptOf, target } from '../../packages/delivery/src/fleet/fleet.fixture.ts';
import { judgeFleet } from '../../packages/delivery/src/fleet/fleet.ts';
import { chromium, type Scheme, screenshot, visit } from './chromium.ts';
import { brightness, readPng } from './png.ts';
import { shopPage } from './shop.ts';

const page = shopPage();
const noBrowser = chromium === undefined;
const browserMs = 90_000;

/**
 * The lowest contrast of any visible text, by the formula of WCAG 2.2 (1.4.3): each text's colour against the layers behind
 * it. Runs in the page.
 */
const measure = `
  // All views at once, as on paper, in the colours of the screen.
  dispatchEvent(new Event('beforeprint'));
  document.querySelectorAll('.view').forEach((view) => view.classList.add('current'));
  document.querySelectorAll('details').forEach((part) => { part.open = true; });
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((part) => part / 255);
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (part) => {
    if (part === null) return [1, 1, 1];
    return over(rgba(getComputedStyle(part).backgroundColor), behind(part.parentElement));
  };
  let least = [21, ''];
  let count = 0;
  for (const part of document.body.querySelectorAll('*')) {
    const isText = [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '');
    if (!isText || part.getClientRects().length === 0) continue;
    const style = getComputedStyle(part);
    const back = behind(part);
    const ink = over(rgba(part instanceof SVGElement ? style.fill : style.color), back);
    const [high, low] = [luminance(ink), luminance(back)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    count++;
    if (contrast < least[0]) least = [contrast, part.outerHTML.slice(0, 120)];
  }
  Object.assign(document.documentElement.dataset, { contrast: least[0].toFixed(2), least: least[1], count });`;

const fleet = fleetHtml(
  judgeFleet(
    new Map(Array.from({ length: 20 }, (_, index) => receiptOf(`n${index}`, receiptOutcomes[index % 7] ?? 'same'))),
    ['foreign'],
    target(1),
  ),
  '',
);

test.skipIf(noBrowser).each([
  ['the report', 'light', page],
  ['the report', 'dark', page],
  ['the fleet', 'light', fleet],
  ['the fleet', 'dark', fleet],
] as const)(
  '(needs chromium) every text of the page of %s has enough contrast, with preferred scheme %s',
  { timeout: browserMs },
  async (_title, scheme, text) => {
    const { dom, console } = await visit(text, measure, 1280, scheme);
    expect(console).toEqual([]);
    const [, least = ''] = /data-least="([^"]*)"/.exec(dom) ?? [];
    const contrast = Number(/data-contrast="([\d.]+)"/.exec(dom)?.[1]);
    expect({ contrast, least, isEnough: contrast >= 4.5 }).toMatchObject({ isEnough: true });
    expect(Number(/data-count="(\d+)"/.exec(dom)?.[1])).toBeGreaterThan(100);
  },
);

test.skipIf(noBrowser)(
  '(needs chromium) screenshots: the background is light or dark as preferred',
  { timeout: browserMs },
  async () => {
    const seen = async (scheme: Scheme): Promise<number> => brightness(readPng(await screenshot(page, scheme)));
    expect(await seen('light')).toBeGreaterThan(0.85);
    expect(await seen('dark')).toBeLessThan(0.25);
  },
);
