// Services that come, change and go, through both programs: files, digests and the rules of a node equal those made from nothing.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTier, runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { admit, AdmitMemory } from '../packages/applier/src/apply/admission/admit.ts';
import { Inbox } from '../packages/applier/src/inbox/inbox.ts';
import { familiesOf, type NodeState, tableOf } from '../packages/applier/src/ports/node-state.ts';
import { LiveTree } from '../packages/renderer/src/emit/live-tree.ts';
import { readConfig } from '../packages/renderer/src/load/config/config.ts';
import { endpoint, node, service, slice } from '../packages/renderer/src/render/builders.fixture.ts';
import { LiveRender } from '../packages/renderer/src/render/incremental/live-render.ts';
import type { KubeObject } from '../packages/renderer/src/render/model/kube.ts';
import { sampleFacts } from '../packages/applier/src/testing/node-facts.fixture.ts';

const facts = { ...sampleFacts, addresses: { ipv4: ['192.0.2.11'], ipv6: [] }, kernelRelease: '6.12.0' };

function configOf(mode: string) {
  const profiles = [{ name: 'default', mode, clusterCIDR: ['10.244.0.0/16'], families: ['ipv4'] }];
  const text = JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', complete: true, profiles });
  return readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] }).config;
}

/** A Service is like that from now on, or gone. Some have one address. */
const change = fc.record({
  name: fc.integer({ min: 0, max: 39 }),
  address: fc.integer({ min: 0, max: 3 }),
  isGone: fc.boolean(),
  port: fc.constantFrom(80, 80, 443),
  nodePort: fc.constantFrom(0, 0, 30_080),
  policy: fc.constantFrom('Cluster', 'Local'),
  endpoints: fc.integer({ min: 0, max: 4 }),
});
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

function objectsOf({ name, address, port, nodePort, policy, endpoints }: Change): readonly [KubeObject, KubeObject] {
  const ports = [{ name: 'http', port, ...(nodePort > 0 && { nodePort: nodePort + name }) }];
  const external = nodePort > 0 ? { type: 'NodePort', externalTrafficPolicy: policy } : {};
  const on = (n: number) => ({ nodeName: n % 2 === 0 ? 'node-a' : 'node-b' });
  const some = Array.from({ length: endpoints }, (_, n) => endpoint(`10.244.${name}.${n}`, on(n)));
  return [
    service(`s${name}`, { clusterIP: `10.96.${address === 0 ? 0 : name}.1`, ports, ...external }),
    slice(`s${name}`, { endpoints: some }),
  ];
}

/** A state in values that can be compared. */
const plain = (state: NodeState): unknown => ({
  ...state,
  families: familiesOf(state).map((family) =>
    (['filter', 'nat'] as const).map((table) => {
      const { chains, jumps } = tableOf(state, family, table);
      return [Object.fromEntries(chains), jumps];
    }),
  ),
  nft: state.nft && [state.nft.settings, Object.fromEntries(state.nft.frontends)],
  services: Object.fromEntries(state.services ?? []),
});

test.each(['nftables', 'iptables', 'ipvs'])(
  'over random sequences all of it equals what is made from nothing (mode %s)',
  async (mode) => {
    let parts = 0;
    const holds = async (steps: readonly (readonly Change[])[]): Promise<void> => {
      const dir = mkdtempSync(join(tmpdir(), 'sluice-service-changes-'));
      const now = new Map<string, KubeObject>([node('node-a'), node('node-b')].map((one, at) => [`node ${at}`, one]));
      const [live, tree, inbox, memory] = [
        new LiveRender(configOf(mode)),
        new LiveTree(dir),
        new Inbox(dir, Date.now),
        new AdmitMemory(),
      ];
      let active: NodeState | undefined;
      try {
        for (const changes of steps) {
          for (const one of changes) {
            for (const object of objectsOf(one)) {
              const key = `${object.kind} ${one.name}`;
              if (one.isGone) now.delete(key);
              else now.set(key, object);
            }
          }
          const { files, isPart, quarantine } = live.render(new Map(now), (path) => tree.text(path));
          parts += Number(isPart);
          tree.publish(files);
          const whole = new LiveRender(configOf(mode)).render(new Map(now), (path) => tree.text(path));
          expect([new Map(files), quarantine]).toEqual([new Map(whole.files), whole.quarantine]);
          const [seen, anew] = [await inbox.look('changed'), await new Inbox(dir, Date.now).look()];
          if (seen.kind !== 'bundle' || anew.kind !== 'bundle') throw new Error(JSON.stringify([seen, anew]));
          expect([seen.tree.digest, [...seen.tree.files]]).toEqual([anew.tree.digest, [...anew.tree.files]]);
          const options = { node: 'node-a', allowPartial: false, layout: 'tree' } as const;
          const context = active ? { active } : {};
          const admitted = admit(seen.tree.files, options, facts, memory, context);
          const fresh = admit(anew.tree.files, options, facts, new AdmitMemory(), context);
          if ('problems' in admitted || 'problems' in fresh) throw new Error(JSON.stringify([admitted, fresh]));
          expect([admitted.version, plain(admitted.state)]).toEqual([fresh.version, plain(fresh.state)]);
          active = admitted.state;
        }
      } finally {
        rmSync(dir, { recursive: true });
      }
    };
    const step = fc.array(change, { minLength: 1, maxLength: 3 });
    const first = fc.array(change, { minLength: 10, maxLength: 30 });
    const sequence = fc.tuple(first, fc.array(step, { maxLength: 8 })).map(([start, steps]) => [start, ...steps]);
    await fc.assert(fc.asyncProperty(sequence, holds), runs(atTier({ quick: 15, all: 60 })));
    // Sequences of full renders would prove nothing.
    expect(parts).toBeGreaterThan(0);
  },
);
