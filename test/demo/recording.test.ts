import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { picturesFolder } from '../../tools/pictures.ts';
import { readRunbook } from '../runbooks/runbook.ts';
import { matches } from '../scripts/script.ts';
import { castOf, readCast, svgOf } from './recording.ts';

const read = (name: string): string => readFileSync(join(picturesFolder, name), 'utf8');
const printed = [
  { seconds: 0, text: '# ./dev demo\n' },
  { seconds: 1.25, text: `1. a & <b>\n   | ${'x'.repeat(200)}\n` },
  { seconds: 60, text: 'end\n' },
];

test('a cast begins with its header, and each event says when it was printed', () => {
  const [header, ...events] = castOf(printed).trimEnd().split('\n');
  expect(JSON.parse(header ?? '')).toMatchObject({ version: 2, width: 112, height: 30 });
  expect(events[1]).toBe(JSON.stringify([1.25, 'o', printed[1]!.text.replaceAll('\n', '\r\n')]));
  expect(readCast(castOf(printed))).toEqual(printed);
});

test('its picture has every line, wrapped as in a terminal, and shortens waits', () => {
  const svg = svgOf(castOf(printed));
  expect(svg).toContain('class="step">1. a &amp; &lt;b></text>');
  expect(svg.match(/class="said">/g)).toHaveLength(2);
  // 1.25 s, then 2.5 s in place of 58.75 s, then 8 s of rest.
  expect(svg).toContain('animation:lines 11.8s ');
});

test('the recording is of the demo that README.md shows, and the picture is of the recording', () => {
  const cast = read('demo.cast');
  expect(svgOf(cast)).toBe(read('demo.svg'));
  const seconds = readCast(cast).map((event) => event.seconds);
  expect(seconds).toEqual(seconds.toSorted((a, b) => a - b));
  const page = readRunbook(readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8'));
  const shown = page.blocks.find(({ text }) => text === './dev demo')?.prints ?? ['nothing'];
  const story = readCast(cast).map(({ text }) => text);
  expect(matches(story.join(''), shown) ? '' : story.join('')).toBe('');
});
