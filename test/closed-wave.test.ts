import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey, publicKeyOf, signBy } from '@sluice/testing';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { reportEnding } from '../packages/applier/src/commands/session/receipts.ts';
import { quietDaemon } from '../packages/applier/src/daemon/daemon.fixture.ts';
import { Inbox } from '../packages/applier/src/inbox/inbox.ts';
import { Reconciler } from '../packages/applier/src/apply/reconcile/reconciler.ts';
import { ReleaseGate } from '../packages/applier/src/inbox/release-gate.ts';
import { trustOf } from '../packages/applier/src/inbox/trust.ts';
import { WaveGate } from '../packages/applier/src/inbox/wave-gate.ts';
import { runChildren } from '../packages/applier/src/kernel/run.ts';
import type { Outcome } from '../packages/applier/src/ports/outcome.ts';
import { Status } from '../packages/applier/src/observe/status/status.ts';
import {
  sampleBundle,
  sampleNode,
  type SampleServices,
  writeBundle,
} from '../packages/applier/src/testing/bundle.fixture.ts';
import { type Scene, scene } from '../packages/applier/src/testing/scene.fixture.ts';
import { sluice } from '../packages/sluice/src/in-process.fixture.ts';

/** What a closing means for a node in each state: releases and openings of `sluice`, keys of ssh-keygen, a daemon on a fake kernel. */

const scratch = mkdtempSync(join(tmpdir(), 'sluice-closed-wave-'));
const at = (name: string): string => join(scratch, name);
const release = at('release');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
for (const name of ['releases', 'waves']) makeKey(at(name));
const keyOf = (name: string): string => publicKeyOf(at(name));
writeFileSync(
  at('allowed_signers'),
  `releases namespaces="sluice-release" ${keyOf('releases')}\nwaves namespaces="sluice-wave" ${keyOf('waves')}\n`,
  { mode: 0o644 },
);
const list = `waves: [{name: canary, nodes: [node-b]}, {name: others, nodes: [${sampleNode}]}]`;
writeFileSync(at('waves.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: Waves\n${list}\n`);

async function does(...args: readonly string[]): Promise<void> {
  const { status, stderr } = await sluice(...args);
  if (status !== 0) throw new Error(`sluice ${args.join(' ')}: ${stderr}`);
}
async function make(services: SampleServices): Promise<void> {
  const files = sampleBundle({ services });
  files.set('nodes/node-b/node.yaml', files.get(`nodes/${sampleNode}/node.yaml`) ?? '');
  rmSync(at('bundle'), { recursive: true, force: true });
  writeBundle(at('bundle'), files);
  await does(
    'release',
    at('bundle'),
    '--serial',
    'auto',
    '--source',
    'c'.repeat(40),
    '--wave',
    at('waves.yaml'),
    '-o',
    release,
  );
  await does('sign', release, '--key', at('releases'));
}
const opening = (name = 'waves-open.yaml'): string => join(release, name);
/** Opens the waves of the release up to a number, as an operator does by hand. */
function open(waves: number): void {
  const text = readFileSync(opening(), 'utf8').replace(/^open: .*$/m, `open: ${waves}`);
  writeFileSync(opening(), text);
  writeFileSync(opening('waves-open.yaml.sig'), signBy(at('waves'), 'sluice-wave', text));
}
const close = () => does('promote', release, '--close', '--key', at('waves'));
/** Returns what puts the present opening back, as a carrier who kept it would. */
function kept(): () => void {
  const files = ['waves-open.yaml', 'waves-open.yaml.sig'].map(
    (name) => [opening(name), readFileSync(opening(name))] as const,
  );
  return () => files.forEach(([path, bytes]) => writeFileSync(path, bytes));
}

let node: Scene;
/** Whether the node puts every release off, as it does after many that failed. */
let isPuttingOff = false;
const putOff: Outcome = {
  kind: 'refused',
  refusal: {
    problems: [
      { code: 'RELEASES_TOO_MANY', level: 'error', message: 'Cannot apply it yet: many failed', hint: 'wait' },
    ],
    isWaiting: true,
  },
};
/** A daemon, from one start to its end: what it says after each step. */
async function live(...steps: readonly (() => unknown)[]): Promise<readonly string[]> {
  const { reconciler, journal } = await node.start();
  const rules = {
    node: sampleNode,
    state: node.directory,
    allowedSigners: at('allowed_signers'),
    threshold: 1,
    floor: 0,
  };
  const parts = { run: runChildren(), trust: trustOf(undefined), remember: () => true };
  const gates = [new ReleaseGate(rules, { ...parts, nowMs: Date.now }), new WaveGate(rules, parts)] as const;
  const status = new Status(sampleNode, () => 0, 1000);
  const said: string[] = [];
  const rest = [...steps];
  await rest.shift()?.();
  let ending = '';
  const daemon = quietDaemon({
    reconciler: {
      recover: () => reconciler.recover(),
      rehearse: (files) => reconciler.rehearse(files),
      put: async (...of) => (isPuttingOff ? putOff : reconciler.put(...of)),
    },
    journal,
    inbox: new Inbox(release, Date.now, undefined, ...gates),
    status,
    ended: async (end, tree) => {
      ending = end.kind;
      const config = { node: sampleNode, state: node.directory };
      await reportEnding(end, tree?.seal, false, { config, journal, writer: { report: async () => undefined } });
    },
    round: async () => {
      const { waits } = status.report();
      said.push(
        [ending, waits ? `waits for ${waits.name}` : '', `generation ${journal.active?.number}`]
          .filter(Boolean)
          .join(', '),
      );
      ending = '';
      const next = rest.shift();
      if (!next) return daemon.stop();
      await next();
      daemon.poke();
    },
  });
  await daemon.run();
  return said;
}
const nothing = (): void => undefined;

beforeEach(async () => {
  node = scene();
  isPuttingOff = false;
  rmSync(release, { recursive: true, force: true });
  await make({ 'shop/web': [1] });
  await does('promote', release, '--key', at('waves'));
  open(2);
  const [first] = await live(nothing);
  if (first !== 'confirmed, generation 1') throw new Error(first);
  await make({ 'shop/web': [1], 'shop/api': [1] });
  await does('promote', release, '--key', at('waves'));
});
afterEach(() => {
  vi.restoreAllMocks();
  node.end();
});

describe('a wave that is closed', () => {
  test('keeps a node waiting that has rehearsed the release, whatever older openings come again', async () => {
    let again = nothing;
    const said = await live(
      nothing,
      async () => {
        open(2);
        again = kept();
        await close();
      },
      () => again(),
      () => open(2),
      async () => {
        await close();
        open(2);
      },
    );
    expect(said).toEqual([
      'waits for others, generation 1',
      'waits for others, generation 1',
      'waits for others, generation 1',
      'waits for others, generation 1',
      'confirmed, generation 2',
    ]);
  });

  test('keeps a node from a release that it saw open and has not begun, also after a restart', async () => {
    isPuttingOff = true;
    open(2);
    const again = kept();
    expect(await live(nothing, close)).toEqual(['refused, generation 1', 'waits for others, generation 1']);
    isPuttingOff = false;
    expect(await live(nothing, again)).toEqual(['waits for others, generation 1', 'waits for others, generation 1']);
  });

  test('does not interrupt a probation', async () => {
    open(2);
    const reopen = kept();
    await close();
    const closing = kept();
    reopen();
    const phases: string[] = [];
    node.health = () => {
      phases.push(`probe ${phases.length}`);
      // The first probe is before the release, and the second one in its probation.
      if (phases.length === 2) closing();
      return true;
    };
    expect(await live(nothing, nothing)).toEqual(['confirmed, generation 2', 'same, generation 2']);
    expect(phases.length).toBeGreaterThan(1);
    expect(readFileSync(opening(), 'utf8')).toContain('closings: 1\nopen: 1\n');
  });

  test('takes nothing from a node that confirmed, also after a restart', async () => {
    open(2);
    expect(await live(nothing, close)).toEqual(['confirmed, generation 2', 'same, generation 2']);
    expect(await live(nothing)).toEqual(['same, generation 2']);
    const rehearsed = vi.spyOn(Reconciler.prototype, 'rehearse');
    expect(await live(nothing)).toEqual(['same, generation 2']);
    expect(rehearsed, 'it waits for nothing, so nothing is rehearsed').not.toHaveBeenCalled();
  });

  test('keeps a node from trying a release again that it rolled back', async () => {
    open(2);
    let probes = 0;
    node.health = () => probes++ === 0;
    expect(await live(nothing, close)).toEqual([
      'rolled-back, generation 1',
      'refused, waits for others, generation 1',
    ]);
  });
});
