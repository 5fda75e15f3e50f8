import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { observe } from './observe.ts';

test('what is wrong in a saved output is named without its control characters', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'observe-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'iptables-save.txt'), '*filter\n:INPUT ACCEPT [0:0]\n-A \u001B[2JX -j DROP\nCOMMIT\n');
  let printed = '';
  const options = { node: 'node-a', from: folder, output: join(folder, 'node-a.json') };
  await observe(options, { out: (text) => void (printed += text), err: () => undefined });
  expect(printed).toContain('iptables-save.txt:3: it has a rule of chain ?[2JX, which it does not declare\n');
  expect(printed).not.toContain('\u001B');
});
