/**
 * Writes the data of this version: a node that it manages. README.md says when. Needs root, as the tests on a kernel do.
 * The signing keys are made here and thrown away.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { buildTestPrograms } from '../../tools/test-programs.ts';
import { until } from '../netns/until.ts';
import { openUpgradeCluster, type Setup, setups, upgradeFolder, UpgradeNode } from './node.ts';
import { makeKey, Releases } from './releases.ts';

const target = join(upgradeFolder, manifest.version);
if (existsSync(target)) {
  process.stderr.write(`Cannot write ${target}: it exists. The data of a released version are never rewritten\n`);
  process.exit(2);
}
const programs = await buildTestPrograms(join(upgradeFolder, '../..'));
const scratch = mkdtempSync(join(tmpdir(), 'sluice-upgrade-'));
const folder = join(scratch, manifest.version);
try {
  const manifests = join(folder, 'manifests');
  cpSync(join(upgradeFolder, 'manifests'), manifests, { recursive: true });
  const releases = new Releases(join(programs, 'sluice'), manifests, scratch, makeKey(scratch, 'releaser'));
  const first = releases.make(['services', 'endpoints'], 1);
  const second = releases.make(['services', 'added', 'endpoints'], 2);
  const update = releases.makeUpdate(second, ['services', 'added', 'endpoints-more']);
  cpSync(second, join(folder, 'release'), { recursive: true });
  cpSync(update, join(folder, 'update'), { recursive: true });
  writeFileSync(join(folder, 'allowed_signers'), releases.signer);
  for (const setup of setups) await writeSetup(setup, first, second);
  // All or nothing.
  cpSync(folder, target, { recursive: true });
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

/** Lets a node apply both releases, the second after the first, and keeps its state. */
async function writeSetup(setup: Setup, first: string, second: string): Promise<void> {
  await using cluster = await openUpgradeCluster();
  const node = new UpgradeNode(cluster.host('node-1'), join(programs, 'sluiced'), setup);
  const to = join(folder, setup.name);
  mkdirSync(to);
  writeFileSync(join(to, 'sluiced.yaml'), configOf(setup));
  await node.put(join(to, 'sluiced.yaml'), 'sluiced.yaml');
  await node.put(join(folder, 'allowed_signers'), 'allowed_signers');
  writeFileSync(join(to, 'allowed_receipts'), await node.keygen());
  await node.put(first, 'rendered');
  const daemon = node.start();
  await until('release 1 is confirmed', async () => node.confirmed(1), 60_000);
  await node.put(second, 'rendered');
  await until('release 2 is confirmed', async () => node.confirmed(2), 60_000);
  await until('its receipt is written', async () => node.hasReceipt(2));
  await daemon.stop();
  for (const name of ['state', 'receipts']) node.take(name, join(to, name));
  for (const [name, text] of Object.entries(await node.rules())) writeFileSync(join(to, name), text);
}

function configOf({ backend, layout }: Setup): string {
  return `apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig
node: node-1
bundle: /run/upgrade/rendered
state: /run/upgrade/state
backend: ${backend}
layout: ${layout}
signatures: {allowedSigners: /run/upgrade/allowed_signers}
receipts: {directory: /run/upgrade/receipts}
scanIntervalSeconds: 1
probation: {seconds: 1}
probes: [{name: good, exec: [/bin/true], intervalSeconds: 0.2}]
`;
}
