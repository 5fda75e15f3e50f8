// @module-tag all
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildSite } from '../../tools/docs/build.ts';
import { allPages } from '../../tools/docs/pages.ts';
import { chromium, type Scheme } from '../report/chromium.ts';
import { serve } from './server.ts';
import { openTab, type Tab } from './tab.ts';

const generator = join(import.meta.dirname, '../../tools/docs/node_modules/vitepress');
const buildMs = 120_000;

describe.skipIf(!existsSync(generator))('(needs ./dev docs) the site', () => {
  let folder = '';
  let html: ReadonlyMap<string, string> = new Map();

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'));
    await buildSite(folder);
    const files = globSync('**/*.html', { cwd: folder });
    html = new Map(files.map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
  }, buildMs);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('has every page', () => {
    expect([...html.keys()].toSorted()).toEqual(['404.html', ...allPages.map(({ path }) => `${path}.html`)].toSorted());
  });

  test('loads nothing from elsewhere', () => {
    const foreign = /<(?:link|script|img|iframe|source)\b[^>]*\b(?:href|src)="(?:https?:)?\/\/[^"]*"/g;
    expect([...html].flatMap(([file, text]) => [...text.matchAll(foreign)].map(([tag]) => `${file}: ${tag}`))).toEqual(
      [],
    );
    const styles = globSync('**/*.css', { cwd: folder }).map((file) => readFileSync(join(folder, file), 'utf8'));
    expect(styles.length).toBeGreaterThan(0);
    for (const style of styles) expect(style).not.toMatch(/@import|url\(["']?(?:https?:)?\/\//);
  });

  test('has a page and a heading behind every link', () => {
    const wrong = [...html].flatMap(([file, text]) =>
      linksIn(text)
        .filter((target) => !leads(file, target, html))
        .map((target) => `${file}: ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  describe.skipIf(chromium === undefined)('(needs chromium) in a browser', () => {
    let tab: Tab;
    let site: Awaited<ReturnType<typeof serve>>;
    const isForeign = (url: string): boolean => !url.startsWith(`${site.origin}/`);

    beforeAll(async () => {
      site = await serve(folder);
      tab = await openTab();
    }, buildMs);
    afterAll(async () => {
      await tab.close();
      site.close();
    });

    test.each<[number, Scheme]>([
      [390, 'light'],
      [390, 'dark'],
      [1280, 'light'],
      [1280, 'dark'],
    ])(
      'at %i pixels, %s, no page complains, leaves its origin, cuts a table, lacks a picture or hides where the reader is',
      { timeout: 2 * buildMs },
      async (width, scheme) => {
        for (const { path } of allPages) {
          await tab.open(`${site.origin}/${path}.html`, width, scheme);
          const seen = {
            path,
            beside: Math.max(0, Number(await tab.run(`document.documentElement.scrollWidth - innerWidth`))),
            wrong: await tab.run(wrongInPage),
            isDark: await tab.run(`document.documentElement.classList.contains('dark')`),
            complaints: tab.complaints(),
            foreign: tab.requests().filter(isForeign),
          };
          expect(seen).toEqual({ path, beside: 0, wrong: [], isDark: scheme === 'dark', complaints: [], foreign: [] });
        }
      },
    );

    test('what is asked of another origin would be seen', async () => {
      await tab.open(`${site.origin}/`, 1280, 'light');
      await tab.run(
        `new Promise((end) => { const image = new Image(); image.onerror = end; image.src = 'http://127.0.0.1:1/x.png'; document.body.append(image); })`,
      );
      expect(tab.complaints().join()).toContain('Content Security Policy');
    });

    test.each([390, 1280])('at %i pixels, search finds probation', async (width) => {
      await tab.open(`${site.origin}/`, width, 'light');
      const found = (await tab.run(search('probation'))) as readonly string[];
      expect(found.join()).toContain('/explanation/transaction.html');
      expect(tab.complaints()).toEqual([]);
      expect(tab.requests().filter(isForeign)).toEqual([]);
    });

    test.each([
      ['rollback', 'how-to/rollback'],
      ['BUNDLE_QUARANTINED', 'reference/problems'],
      ['helm', 'how-to/chart'],
      ['metallb', 'how-to/vip'],
      ['externalTrafficPolicy', 'reference/matrix'],
      ['argo', 'how-to/argo-cd-and-flux'],
      ['FRONTEND_OVERLAP', 'reference/policy'],
      ['lost key', 'how-to/key-rotation'],
      ['NODE_HELD', 'reference/alarms'],
    ])('search for %s has %s among the first three', async (word, page) => {
      await tab.open(`${site.origin}/`, 1280, 'light');
      const found = (await tab.run(search(word))) as readonly string[];
      expect(found.slice(0, 3).map((link) => new URL(link).pathname)).toContain(`/${page}.html`);
    });
  });
});

/** What a reader would miss: cells and pictures beyond the text, pictures that did not come, the page in the list of pages. */
const wrongInPage = `(() => {
  const text = document.querySelector('.vp-doc').getBoundingClientRect();
  const cells = [...document.querySelectorAll('.vp-doc td, .vp-doc table, .vp-doc img')];
  const cut = cells.filter((cell) => cell.getBoundingClientRect().right > text.right + 1 || cell.scrollWidth > cell.clientWidth + 1);
  const missing = [...document.images].filter((image) => !image.complete || image.naturalWidth === 0);
  const active = document.querySelector('.VPSidebarItem.is-link.is-active > .item')?.getBoundingClientRect();
  const isHidden = document.querySelector('.VPSidebar') !== null && !(active && active.top >= 0 && active.bottom <= innerHeight);
  return [
    ...cut.map((cell) => 'cut: ' + cell.textContent.slice(0, 60)),
    ...missing.map((image) => 'missing: ' + image.src),
    ...(isHidden ? ['not in the list of pages'] : []),
  ];
})()`;

const linksIn = (text: string): readonly string[] =>
  [...text.matchAll(/<a\b[^>]*\bhref="([^"]*)"/g)]
    .map(([, target]) => target ?? '')
    .filter((target) => !/^[a-z]+:/.test(target));

function leads(file: string, target: string, html: ReadonlyMap<string, string>): boolean {
  const [path = '', anchor] = decodeURI(target).split('#');
  const named = path.startsWith('/') ? path.slice(1) : posix.join(dirname(file), path);
  const there = path === '' ? file : named === '' || named.endsWith('/') ? `${named}index.html` : named;
  const text = html.get(there);
  return text !== undefined && (anchor === undefined || anchor === '' || text.includes(`id="${anchor}"`));
}

/** As a reader does it: the button, the word, and the links that come. */
const search = (word: string): string => `(async () => {
  const until = async (find) => {
    for (let tries = 0; tries < 500; tries++) {
      const found = find();
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error('nothing came');
  };
  (await until(() => document.querySelector('.VPNavBarSearch button'))).click();
  const input = await until(() => document.querySelector('#localsearch-input'));
  input.value = '${word}';
  input.dispatchEvent(new Event('input', { bubbles: true }));
  await until(() => document.querySelector('.VPLocalSearchBox .results a'));
  return [...document.querySelectorAll('.VPLocalSearchBox .results a')].map((link) => link.href);
})()`;
