// @module-tag test
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterAll, expect, test } from 'vitest';

/** No text from outside steers the terminal of an operator: both programs escape everything that they print. */

const dir = mkdtempSync(join(tmpdir(), 'sluice-printable-'));
afterAll(() => rmSync(dir, { recursive: true }));

const bad = 'x\u001B[2J\u009B31m\u202Ey';
const shown = 'x\\u001b[2J\\u009b31m\\u202ey';
const plain = /^[\n\x20-\x7e]*$/;

const run = (program: 'sluice' | 'sluiced', ...words: readonly string[]) =>
  execa(programPath(program), words, { reject: false, env: { PATH: '' }, extendEnv: false });

/** Prints the status of a daemon that reports this. */
async function statusOf(report: object, ...words: readonly string[]): Promise<string> {
  const server = createServer((_request, response) => response.end(JSON.stringify(report)));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  try {
    const config = join(dir, 'sluiced.yaml');
    const { port } = server.address() as AddressInfo;
    const head = 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-a\n';
    writeFileSync(config, `${head}state: ${dir}/state\nlisten: 127.0.0.1:${port}\n`);
    return (await run('sluiced', 'status', '--config', config, ...words)).stdout;
  } finally {
    server.close();
  }
}

const report = {
  node: 'node-a',
  healthy: false,
  alarms: { RELEASE_ROLLED_BACK: `probe web failed: ${bad}\nhalted      forged` },
  notes: { [bad]: bad },
};

test('sluiced status shows what a probe answered without its control bytes', async () => {
  const stdout = await statusOf(report);
  expect(stdout).toMatch(plain);
  expect(stdout).toContain(`probe web failed: ${shown} halted      forged`);
  expect(stdout).not.toMatch(/^halted/m);
});

test('sluiced status -o json means the same without them', async () => {
  const stdout = await statusOf(report, '-o', 'json');
  expect(stdout).toMatch(plain);
  expect((JSON.parse(stdout) as { daemon: object }).daemon).toEqual(report);
});

test('sluice names a file without its control bytes', async () => {
  const file = join(dir, `${bad}.yaml`);
  writeFileSync(file, 'kind: [\n');
  const { stdout, stderr, exitCode } = await run('sluice', 'render', '-f', file, '-o', join(dir, 'out'));
  expect(exitCode).toBe(2);
  expect(`${stdout}${stderr}`).toMatch(plain);
  expect(stderr).toContain(`${shown}.yaml`);
});
