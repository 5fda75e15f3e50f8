import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileDigest, makeRelease, printRelease, sumsOf } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Daemon } from '../packages/applier/src/daemon.ts';
import type { Seal, Tree } from '../packages/applier/src/inbox/files.ts';
import type { Arrival } from '../packages/applier/src/inbox/inbox.ts';
import { runChildren } from '../packages/applier/src/kernel/run.ts';
import { accountOf } from '../packages/applier/src/receipts/account.ts';
import { makeKey } from '../packages/applier/src/receipts/key.ts';
import { Receipts } from '../packages/applier/src/receipts/receipts.ts';
import { Witness } from '../packages/applier/src/receipts/witness.ts';
import type { Outcome } from '../packages/applier/src/rollout/outcome.ts';
import { Status } from '../packages/applier/src/status.ts';
import { sampleBundle, sampleNode } from '../packages/applier/src/testing/bundle.fixture.ts';
import { gatherEvidence } from '../packages/renderer/src/commands/evidence.ts';
import { judgeFleet, type Target } from '../packages/renderer/src/fleet/fleet.ts';
import { promote } from '../packages/renderer/src/fleet/promote.ts';

/** What a node says while endpoints change, and what `sluice promote` makes of it. */

const generation = { number: 3, revision: 0, version: '7'.repeat(16), state: { families: {}, sysctls: new Map() } };
const confirmed: Outcome = { kind: 'confirmed', generation, steps: 1 };
const run = runChildren();

let scratch: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'sluice-endpoint-receipts-'));
});
afterEach(() => rmSync(scratch, { recursive: true, force: true }));

function sealOf(revision?: number): Seal {
  const files = sampleBundle();
  const terms = { serial: 42, source: 'c'.repeat(40), ...(revision === undefined ? {} : { revision }) };
  const release = makeRelease(files, terms);
  if (!('serial' in release)) throw new Error(JSON.stringify(release));
  const text = printRelease(release);
  return { sums: sumsOf(files, text), release: text, signatures: new Map() };
}

function arrivalOf(seal: Seal, revision?: number): Arrival {
  const tree: Tree = { files: new Map(), digest: fileDigest(seal.sums), seal };
  const accepted = { cluster: 'test', serial: 42, digest: fileDigest(seal.sums), signers: ['one'] };
  if (revision === undefined) return { kind: 'bundle', tree, release: accepted };
  return { kind: 'bundle', tree, release: { ...accepted, revision, onlyEndpoints: true } };
}

/** Lets a daemon see one directory after the other. */
async function live(looks: readonly Arrival[]): Promise<void> {
  const rules = { node: sampleNode, state: join(scratch, 'state'), directory: join(scratch, 'receipts'), keep: 32 };
  let nowMs = Date.parse('2026-12-01T12:00:00Z');
  const witness = new Witness({
    receipts: new Receipts(rules, run, () => (nowMs += 60_000)),
    node: sampleNode,
    standing: () => generation,
    sluiced: '0.1.0',
    failed: (why) => expect(why).toBeUndefined(),
  });
  const rest = [...looks];
  const silent = (): void => undefined;
  const daemon: Daemon = new Daemon({
    keeper: {
      recover: async () => undefined,
      settle: async () => 0,
      rehearse: async () => 'ready',
      put: async () => confirmed,
    },
    journal: { standing: generation, held: undefined },
    inbox: {
      look: async () => {
        const arrival = rest.shift() as Arrival;
        if (rest.length === 0) daemon.stop();
        else daemon.poke();
        return arrival;
      },
    },
    status: new Status(sampleNode, () => 0, 1000),
    log: { info: silent, warn: silent, error: silent, fatal: silent },
    machine: () => '',
    monotonicMs: () => 0,
    scanIntervalMs: 1000,
    ready: silent,
    ended: (ending, tree, onlyEndpoints) => witness.tell(accountOf(ending), tree?.seal, onlyEndpoints),
  });
  await daemon.run();
}

test('a node whose endpoints changed since counts for the next wave of its release', async () => {
  const allowed = join(scratch, 'allowed_receipts');
  writeFileSync(allowed, `${await makeKey(join(scratch, 'state'), sampleNode, false, run)}\n`);
  const release = sealOf();
  await live([arrivalOf(release), arrivalOf(sealOf(1), 1), arrivalOf(sealOf(2), 2)]);
  const waves = [
    { name: 'canary', nodes: [sampleNode] },
    { name: 'others', nodes: ['node-b'] },
  ];
  const nodes = [sampleNode, 'node-b'];
  const target: Target = { cluster: 'test', serial: 42, digest: fileDigest(release.sums), nodes, waves, open: 1 };
  const { evidence, strangers } = gatherEvidence(join(scratch, 'receipts'), allowed);
  const fleet = judgeFleet(evidence, strangers, target);
  expect(fleet.rows.find(({ node }) => node === sampleNode)).toMatchObject({ state: 'runs', why: null });
  expect(promote(waves, 1, fleet, 1)).toMatchObject({ kind: 'open', open: 2 });
});
