import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileDigest, makeRelease, onlyEndpoints, printRelease, sumsOf } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Daemon } from '../packages/applier/src/daemon/daemon.ts';
import type { Seal, Tree } from '../packages/applier/src/inbox/files.ts';
import type { Arrival } from '../packages/applier/src/inbox/inbox.ts';
import { runChildren } from '../packages/applier/src/kernel/run.ts';
import { accountOf } from '../packages/applier/src/observe/receipts/account.ts';
import { makeKey } from '../packages/applier/src/observe/receipts/key.ts';
import { Receipts } from '../packages/applier/src/observe/receipts/receipts.ts';
import { ReceiptWriter } from '../packages/applier/src/observe/receipts/receipt-writer.ts';
import type { Outcome } from '../packages/applier/src/ports/outcome.ts';
import { Status } from '../packages/applier/src/observe/status/status.ts';
import { sampleBundle, sampleNode } from '../packages/applier/src/testing/bundle.fixture.ts';
import { gatherEvidence } from '../packages/delivery/src/commands/evidence/evidence.ts';
import { judgeFleet, type RolloutTarget } from '../packages/delivery/src/fleet/fleet.ts';
import { promote } from '../packages/delivery/src/fleet/promote.ts';

/** The receipts of a node while endpoints change, and the verdict of `sluice promote` on them. */

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

/** A directory that a daemon scans, and the outcome. */
type Look = readonly [Arrival, Outcome];

/** Lets a daemon scan one directory after the other. */
async function live(looks: readonly Look[]): Promise<void> {
  const rules = { node: sampleNode, state: join(scratch, 'state'), directory: join(scratch, 'receipts'), keep: 32 };
  let nowMs = Date.parse('2026-12-01T12:00:00Z');
  const receiptWriter = new ReceiptWriter({
    receipts: new Receipts(rules, run, () => (nowMs += 60_000)),
    node: sampleNode,
    active: () => generation,
    serving: () => ({ mode: 'iptables', kubeProxy: 'absent' }),
    draining: () => undefined,
    sluiced: '0.1.0',
    failed: (why) => expect(why).toBeUndefined(),
  });
  const rest = [...looks];
  let current: Outcome;
  const silent = (): void => undefined;
  const daemon: Daemon = new Daemon({
    reconciler: {
      recover: async () => undefined,
      repair: async () => 0,
      rehearse: async () => 'ready',
      put: async () => current,
    },
    journal: { active: generation, halted: undefined },
    inbox: {
      look: async () => {
        const [arrival, ending] = rest.shift() as Look;
        current = ending;
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
    ended: (ending, tree, isUpdate) => receiptWriter.report(accountOf(ending), tree?.seal, isUpdate),
  });
  await daemon.run();
}

const waves = [
  { name: 'canary', nodes: [sampleNode] },
  { name: 'others', nodes: ['node-b'] },
];
const release = sealOf();

/** The verdict on a node whose wave is open, from its receipts. @returns its row, and whether the next wave may open */
async function judged(...looks: readonly Look[]) {
  const allowed = join(scratch, 'allowed_receipts');
  writeFileSync(allowed, `${await makeKey(join(scratch, 'state'), sampleNode, false, run)}\n`);
  await live(looks);
  const nodes = [sampleNode, 'node-b'];
  const target: RolloutTarget = {
    cluster: 'test',
    serial: 42,
    digest: fileDigest(release.sums),
    nodes,
    waves,
    open: 1,
  };
  const { evidence, foreignNodes } = await gatherEvidence({ dir: join(scratch, 'receipts') }, allowed);
  const fleet = judgeFleet(evidence, foreignNodes, target);
  return { row: fleet.rows.find(({ node }) => node === sampleNode), decision: promote(waves, 1, fleet, { quorum: 1 }) };
}
const update = (revision: number): Arrival => arrivalOf(sealOf(revision), revision);

test('a node counts for the next wave of its release after its endpoints changed', async () => {
  const { row, decision } = await judged(
    [arrivalOf(release), confirmed],
    [update(1), confirmed],
    [update(2), confirmed],
  );
  expect(row).toMatchObject({ state: 'runs', why: null });
  expect(decision).toMatchObject({ kind: 'open', open: 2 });
});

const refused: Outcome = { kind: 'refused', refusal: { problems: [onlyEndpoints('a port is new')] } };

test('a node that refused an endpoint update reports the reason, and the next wave stays closed', async () => {
  const { row, decision } = await judged([arrivalOf(release), confirmed], [update(1), refused]);
  expect(row).toMatchObject({ state: 'refused', why: expect.stringContaining('a port is new') });
  expect(row?.receipt?.codes).toEqual(['RELEASE_ENDPOINTS_ONLY']);
  expect(decision).toMatchObject({ kind: 'not-ready', problems: [{ code: 'WAVE_NOT_READY' }] });
});

test('… until it applies a later one', async () => {
  const { row, decision } = await judged([arrivalOf(release), confirmed], [update(1), refused], [update(2), confirmed]);
  expect(row).toMatchObject({ state: 'runs', why: null });
  expect(decision).toMatchObject({ kind: 'open', open: 2 });
});
