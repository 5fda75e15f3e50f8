/** `node tools/pictures.ts`: draws the pictures of docs/review.md from the report of a test, in Chromium. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A picture of a view of the page. */
export interface PictureOf {
  readonly name: string;
  readonly view: string;
  readonly width: number;
  readonly scheme: 'light' | 'dark';
}

export const picturesFolder = join(import.meta.dirname, '..', 'docs', 'pictures');

export const pictures: readonly PictureOf[] = [
  { name: 'report-changes', view: 'changes', width: 1280, scheme: 'light' },
  { name: 'report-drawing', view: 'drawing', width: 1280, scheme: 'dark' },
  { name: 'report-service', view: 'services/shop%2Fweb', width: 1280, scheme: 'light' },
  { name: 'report-cluster', view: 'cluster', width: 1280, scheme: 'light' },
  { name: 'report-narrow', view: 'services/shop%2Fweb', width: 360, scheme: 'dark' },
];

if (process.argv[1] === import.meta.filename) {
  const { openTab } = await import('../test/docs/tab.ts');
  const { readPng, smallPng } = await import('../test/report/png.ts');
  const { shopPage, shopReport } = await import('../test/report/shop.ts');
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pictures-'));
  const file = join(folder, 'report.html');
  writeFileSync(file, shopPage('rendered', shopReport()));
  mkdirSync(picturesFolder, { recursive: true });
  const tab = await openTab('document.documentElement.dataset.ready');
  for (const { name, view, width, scheme } of pictures) {
    await tab.open('about:blank#', width, scheme, 'true');
    await tab.open(`file://${file}#${view}`, width, scheme);
    writeFileSync(join(picturesFolder, `${name}.png`), smallPng(readPng(await tab.screenshot())));
  }
  await tab.close();
  rmSync(folder, { recursive: true, force: true });
}
