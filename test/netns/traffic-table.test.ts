// @module-tag test
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readPacketTable } from './traffic-table.ts';

const dir = mkdtempSync(join(tmpdir(), 'sluice-table-'));
afterAll(() => rmSync(dir, { recursive: true }));

const row = (to: string): string =>
  `packets:\n  - { title: t, from: a, to: '${to}', expect: web-1 | masquerade web-2 }\n`;

function read(text: string): ReturnType<typeof readPacketTable> {
  const file = join(dir, 'packets.yaml');
  writeFileSync(file, text);
  return readPacketTable(file);
}

test('reads a row with its target and every verdict that must occur', () => {
  expect(read(row('[fd00:10:96::10]:53/udp')).packets).toEqual([
    {
      title: 't',
      from: 'a',
      to: { address: 'fd00:10:96::10', port: 53, protocol: 'udp' },
      expect: ['web-1', 'masquerade web-2'],
      stays: false,
    },
  ]);
});

test('missing fields have defaults', () => {
  const { outside, pods, listen } = read(row('10.96.0.10:80/tcp'));
  expect({ outside, pods, listen }).toEqual({
    outside: { addresses: ['198.51.100.10'], ports: [] },
    pods: [],
    listen: {},
  });
});

test.each([
  '10.96.0.10:80',
  '10.96.0:80/tcp',
  'web:80/tcp',
  'fd00::1:80/tcp',
  '[10.96.0.10]:80/tcp',
  '10.96.0.10:80/http',
])('refuses a target %s', (target) => {
  expect(() => read(row(target))).toThrow(`Cannot read the target ${target}`);
});
