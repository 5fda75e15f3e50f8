import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { defaultConfig } from '../../config.ts';
import { runChildren } from '../../kernel/run.ts';
import { makeKey } from '../../observe/receipts/key.ts';
import { makeReceiptWriter } from './receipts.ts';

test.each([
  ['beside the state', undefined, 'state/receipts'],
  ['where the config says', 'elsewhere', 'elsewhere'],
])('receipts are written %s', async (_title, directory, expected) => {
  const root = mkdtempSync(join(tmpdir(), 'sluiced-receipts-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const config = defaultConfig('node-a');
  const receipts = { ...config.receipts, ...(directory === undefined ? {} : { directory: join(root, directory) }) };
  const failures: unknown[] = [];
  const writer = makeReceiptWriter(
    { ...config, state: join(root, 'state'), receipts },
    () => undefined,
    (why) => void failures.push(why),
  );
  mkdirSync(join(root, 'state'), { mode: 0o700 });
  await makeKey(join(root, 'state'), 'node-a', false, runChildren());
  await writer.report({ outcome: 'chosen', because: 'an operator chose it' }, undefined);
  expect([failures, existsSync(join(root, expected))]).toEqual([[undefined], true]);
});
