import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, sampleNode } from '../testing/bundle.fixture.ts';
import type { DeclaredHealth } from './declared.ts';
import { HealthMemory } from './memory.ts';
import { StandingHealth } from './standing.ts';

let state: string;
let said: string[];
beforeEach(() => {
  state = mkdtempSync(`${tmpdir()}/sluiced-standing-`);
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
const spell = ({ services }: DeclaredHealth): string =>
  services.map(({ name, port, localEndpoints }) => `${name} ${port} ${localEndpoints}`).join(', ');
const start = (): StandingHealth =>
  new StandingHealth({
    node: sampleNode,
    ports: {
      follow: async (declared) => void said.push(`follow ${spell(declared)}`),
      count: (declared) => void said.push(`count ${spell(declared)}`),
    },
    memory: new HealthMemory(state),
    unwritten: (error) => void said.push(String(error)),
  });

test('of a bundle of which only endpoints came in, Services that stand are counted, and no port opens, closes or moves', async () => {
  const health = start();
  await health.taken(bundle({ web: [31_001, 1], cart: [31_002, 1], gone: [31_003, 1] }));
  health.brought(bundle({ web: [31_001, 3], cart: [31_009, 0], other: [31_004, 1] }));
  await health.taken(bundle({ web: [31_001, 3], cart: [31_009, 0], other: [31_004, 1] }));
  expect(said).toEqual([
    'follow web 31001 1, cart 31002 1, gone 31003 1',
    'count web 31001 3, cart 31002 0, gone 31003 1',
    'follow web 31001 3, other 31004 1, cart 31009 0',
  ]);
});

test('a restart knows the ports, with the endpoints that came last', async () => {
  const health = start();
  health.brought(bundle({ web: [31_001, 3] }));
  await health.taken(bundle({ web: [31_001, 1] }));
  health.brought(bundle({ web: [31_001, 2] }));
  said = [];
  const next = start();
  await next.recall();
  next.brought(bundle({ web: [31_001, 0] }));
  expect(said).toEqual(['follow web 31001 2', 'count web 31001 0']);
});
