import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { ForwardingState } from '@sluice/netfilter';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, sampleNode } from '../../testing/bundle.fixture.ts';
import type { DeclaredHealth } from './declared.ts';
import { healthFile } from './declared.ts';
import { ActiveHealth } from './active.ts';

let state: string;
let said: string[];
beforeEach(() => {
  state = mkdtempSync(`${tmpdir()}/sluiced-active-`);
  said = [];
});
afterEach(() => rmSync(state, { recursive: true, force: true }));

/** A bundle with these Services: name → port and how many endpoints the node has. */
const bundle = (services: Readonly<Record<string, readonly [port: number, endpoints: number]>>) =>
  new Map([
    ...sampleBundle(),
    ...Object.entries(services).map(([name, [port, endpoints]]): [string, string] => [
      `profiles/default/services/shop/${name}.iptables`,
      `${Array.from({ length: endpoints }, (_, n) => `# endpoint 10.244.1.${n + 1}:80 ${sampleNode}\n`).join('')}*filter\n-A KUBE-NODEPORTS -m tcp -p tcp --dport ${port} -j ACCEPT\nCOMMIT\n`,
    ]),
  ]);
const nothing = { families: {} };
const spell = ({ services }: DeclaredHealth): string =>
  services.map(({ name, port, localEndpoints }) => `${name} ${port} ${localEndpoints}`).join(', ');
const start = (): ActiveHealth =>
  new ActiveHealth({
    node: sampleNode,
    ports: {
      follow: async (declared) => void said.push(`follow ${spell(declared)}`),
      count: (declared) => void said.push(`count ${spell(declared)}`),
    },
    memory: healthFile(state),
    unwritten: (error) => void said.push(String(error)),
  });

test('updates counts, but no port, when only endpoints of a bundle are applied', async () => {
  const health = start();
  await health.taken(bundle({ web: [31_001, 1], cart: [31_002, 1], gone: [31_003, 1] }));
  health.earlyEndpoints(bundle({ web: [31_001, 3], cart: [31_009, 0], other: [31_004, 1] }), nothing);
  await health.taken(bundle({ web: [31_001, 3], cart: [31_009, 0], other: [31_004, 1] }));
  expect(said).toEqual([
    'follow web 31001 1, cart 31002 1, gone 31003 1',
    'count web 31001 3, cart 31002 0, gone 31003 1',
    'follow web 31001 3, other 31004 1, cart 31009 0',
  ]);
});

test('counts a first endpoint only when the active rules have it', async () => {
  const health = start();
  await health.taken(bundle({ web: [31_001, 0], cart: [31_002, 0] }));
  const offered = bundle({ web: [31_001, 1], cart: [31_002, 2] });
  const path = 'profiles/default/services/shop/cart.iptables';
  const chain = 'KUBE-SVL-AAAAAAAAAAAAAAAA';
  const rules = [
    `@node=${sampleNode} -A ${chain} -m comment --comment "shop/cart -> 10.244.1.1:80" -j KUBE-SEP-B`,
    '-A KUBE-SEP-B -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:80',
  ];
  offered.set(path, `${offered.get(path) ?? ''}*nat\n${rules.join('\n')}\nCOMMIT\n`);
  const stands = (to: string): ForwardingState => {
    const nat = { chains: new Map([[chain, [`-A ${chain} -p tcp -j DNAT --to-destination ${to}`]]]), jumps: [] };
    return { families: { ipv4: { filter: { chains: new Map(), jumps: [] }, nat } } };
  };
  health.earlyEndpoints(offered, nothing);
  health.earlyEndpoints(offered, stands('10.244.1.9:80'));
  health.earlyEndpoints(offered, stands('10.244.1.1:80'));
  health.earlyEndpoints(bundle({ web: [31_001, 1], cart: [31_002, 3] }), nothing);
  health.earlyEndpoints(bundle({ web: [31_001, 1], cart: [31_002, 0] }), nothing);
  health.earlyEndpoints(bundle({ web: [31_001, 1], cart: [31_002, 3] }), nothing);
  expect(said.map((one) => one.replace(/^\S+ web 31001 0, cart 31002 /, ''))).toEqual([
    '0',
    '0',
    '0',
    '2',
    '3',
    '0',
    '0',
  ]);
});

test('restores the ports after a restart, with the latest endpoint counts', async () => {
  const health = start();
  health.earlyEndpoints(bundle({ web: [31_001, 3] }), nothing);
  await health.taken(bundle({ web: [31_001, 1] }));
  health.earlyEndpoints(bundle({ web: [31_001, 2] }), nothing);
  said = [];
  const next = start();
  await next.recall();
  next.earlyEndpoints(bundle({ web: [31_001, 0] }), nothing);
  expect(said).toEqual(['follow web 31001 2', 'count web 31001 0']);
});
