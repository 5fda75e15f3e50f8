// @module-tag quick
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type BundleFiles,
  completeFile,
  fileDigest,
  makeRelease,
  openingFile,
  printOpening,
  printRelease,
  printWaves,
  releaseFile,
  sumsFile,
  sumsOf,
  wavesFile,
} from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultConfig, type SluicedConfig } from '../../config.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { NodeSession } from '../session/session.ts';
import { sampleBundle, sampleNode, writeBundle } from '../../testing/bundle.fixture.ts';
import { bundleFor } from './adopt.ts';

let directory: string;
let config: SluicedConfig;
let sums: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluiced-adopt-'));
  const plain = defaultConfig(sampleNode);
  const signatures = { ...plain.signatures, policy: 'none' } as const;
  config = { ...plain, bundle: join(directory, 'rendered'), state: join(directory, 'state'), signatures };
  const waves = printWaves([
    { name: 'canary', nodes: ['node-b'] },
    { name: 'blocked', nodes: [sampleNode] },
  ]);
  const files = sampleBundle({ services: { 'shop/web': [1] } });
  const made = makeRelease(files, { serial: 1, source: 'c'.repeat(40) });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  const release = printRelease(made);
  writeBundle(config.bundle, files);
  rmSync(join(config.bundle, completeFile));
  sums = sumsOf(files, release, waves);
  for (const [name, text] of [
    [releaseFile, release],
    [wavesFile, waves],
    [sumsFile, sums],
  ] as const)
    writeFileSync(join(config.bundle, name), text);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const open = (count: number): void =>
  writeFileSync(join(config.bundle, openingFile), printOpening({ release: fileDigest(sums), open: count }));

test('a node whose wave is closed is not moved', async () => {
  open(1);
  await expect(bundleFor(config, false)).rejects.toMatchObject({
    exitCode: exitCodes.refused,
    problems: [{ level: 'error', message: expect.stringContaining('1 of 2 are open') }],
  });
});

test('a writer that is at work is waited for, and not for ever', async () => {
  const files = sampleBundle({ services: { 'shop/web': [2] } });
  config = { ...config, bundle: join(directory, 'written') };
  writeBundle(config.bundle, files);
  const seal = join(config.bundle, completeFile);
  const text = readFileSync(seal, 'utf8');
  rmSync(seal);
  await expect(bundleFor(config, false, 50)).rejects.toMatchObject({ problems: [{ code: 'BUNDLE_INCOMPLETE' }] });
  const found = bundleFor(config, false, 30_000);
  setTimeout(() => writeFileSync(seal, text), 300);
  expect([...(await found).tree.files.keys()].toSorted()).toEqual([...files.keys()].toSorted());
});

test('a release is moved with live endpoints, and not without them', async () => {
  open(2);
  const live = { directory: join(directory, 'live') };
  config = { ...config, endpoints: { ...config.endpoints, live } };
  const withLive = (_release: object) => ({
    with: (found: BundleFiles) => ({ files: found, version: 'v', declined: new Map() }),
  });
  const session = { reconciler: { withLive }, journal: { active: { number: 0 } } } as unknown as NodeSession;
  writeBundle(live.directory, sampleBundle({ services: { 'shop/web': [7] } }));
  const found = await bundleFor(config, false, 0, session);
  expect([...found.tree.files.values()].join('\n')).toContain('10.244.0.8:8080');
  expect(found.live?.version).toBe('v');
  chmodSync(live.directory, 0o777);
  const active = { reconciler: { withLive }, journal: { active: { number: 1 } } } as unknown as NodeSession;
  await expect(bundleFor(config, false, 0, active)).rejects.toMatchObject({
    problems: [
      { code: 'BUNDLE_INCOMPLETE', message: expect.stringContaining('Cannot trust the directory of endpoints.live') },
    ],
  });
});

test('a node whose wave is open gets its bundle', async () => {
  open(2);
  expect((await bundleFor(config, false)).tree.files).toBeDefined();
});
