import { resolveNode } from '@sluice/bundle';
import { cidrContains, type Family, type NftFrontend, type NftState, readFrontend, readNft } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assemble } from '../../assemble.ts';
import type { Profile } from '../../model/config.ts';
import type { Node, PortOfFamily, Service, ServicePort } from '../../model/model.ts';
import { someNodes, somePort, someProfile } from '../arbitrary.fixture.ts';
import { configWith, serviceOf } from '../sample.fixture.ts';
import { type Answer, kubeProxyNft, type NftAnswers, type Source } from './kube-proxy.fixture.ts';

/** A client of each kind; that of pods is in the cluster CIDR and in the pod CIDR of its node. */
const clientOf = {
  ipv4: { pod: '10.244.1.9', node: '192.0.2.7', outside: '198.18.0.9' },
  ipv6: { pod: 'fd00:10:244:1::9', node: '2001:db8::7', outside: '2001:db8:ffff::9' },
} as const satisfies Record<Family, Record<Source, string>>;

/** The edges of the ranges, the addresses of load balancers, and others. */
const clients = {
  ipv4: ['198.51.100.0', '198.51.100.255', '198.51.101.0', '192.0.2.2', '192.0.2.7', '203.0.113.4', '10.244.1.9'],
  ipv6: ['2001:db8:1::', '2001:db8:2::', '2001:db8::2', '2001:db8::7', '2001:db8:9::4', 'fd00:10:244:1::9'],
} as const satisfies Record<Family, readonly string[]>;

/** Some load-balancer address outside of every range, and one that is an external IP, too. */
function withOtherAddresses(here: PortOfFamily, isBoth: boolean): PortOfFamily {
  const other: Readonly<Record<string, string>> = { '192.0.2.4': '203.0.113.4', '2001:db8::4': '2001:db8:9::4' };
  const loadBalancerIPs = here.loadBalancerIPs.map((address) => other[address] ?? address);
  const externalIPs = isBoth ? [...here.externalIPs, ...loadBalancerIPs.slice(0, 1)] : here.externalIPs;
  return { ...here, loadBalancerIPs, externalIPs };
}

const someService: fc.Arbitrary<Service> = fc
  .record({ port: somePort, other: fc.option(somePort, { nil: undefined }), isBoth: fc.boolean() })
  .map(({ port, other, isBoth }) => {
    const ports = other
      ? [port, { ...other, key: 'shop/cart:more', name: 'more', port: 81, nodePort: 30_081 }]
      : [port];
    return serviceOf(ports.map((each) => ({ ...each, families: familiesOf(each, isBoth) })));
  });

function familiesOf({ families: { ipv4, ipv6 } }: ServicePort, isBoth: boolean): ServicePort['families'] {
  return {
    ...(ipv4 && { ipv4: withOtherAddresses(ipv4, isBoth) }),
    ...(ipv6 && { ipv6: withOtherAddresses(ipv6, isBoth) }),
  };
}

const someNftProfile: fc.Arbitrary<Profile> = someProfile.map((profile) => ({
  ...profile,
  mode: 'nftables',
  nftables: { masqueradeAll: profile.iptables.masqueradeAll },
}));

/** The state of a node, from the files of a bundle. */
function stateOf(files: ReadonlyMap<string, string>, node: string): NftState {
  const resolved = resolveNode(files, node);
  if (!('version' in resolved) || !resolved.nft) throw new Error(JSON.stringify(resolved));
  const state = readNft(resolved.nft);
  if ('problems' in state) throw new Error(JSON.stringify(state.problems));
  return state;
}

/** What the table of a node does with a packet: packages/bundle/README.md, "Mode nftables". */
class TableAnswers {
  readonly #settings: readonly string[];

  constructor({ settings }: NftState) {
    this.#settings = settings;
  }

  ask(frontend: NftFrontend, source: Source): Answer {
    const { outside, none, affinitySeconds } = frontend;
    const isFar = outside === 'local' && source !== 'node' && !this.#isPod(frontend, source);
    const list = isFar ? frontend.local : frontend.endpoints;
    if (list.length === 0) return { to: none ?? 'pass', masquerade: false };
    return {
      to: list.toSorted(),
      masquerade: this.#isMasqueraded(frontend, source),
      ...(affinitySeconds === undefined ? {} : { affinitySeconds }),
    };
  }

  #isMasqueraded(frontend: NftFrontend, source: Source): boolean {
    if (frontend.isClusterIP)
      return (
        this.#has('masquerade-all') || !(this.#hasInterface() ? source === 'pod' : this.#isIn('keep', frontend, source))
      );
    if (frontend.outside === 'cluster') return true;
    return source === 'node' && !this.#isPod(frontend, source);
  }

  #isPod(frontend: NftFrontend, source: Source): boolean {
    return this.#hasInterface() ? source === 'pod' : this.#isIn('pods', frontend, source);
  }

  #isIn(set: 'pods' | 'keep', { family }: NftFrontend, source: Source): boolean {
    const networks = this.#settings.filter((line) => line.startsWith(`${set} `)).map((line) => line.split(' ')[1]!);
    return networks.some((network) => cidrContains(network, clientOf[family][source]));
  }

  #hasInterface(): boolean {
    return this.#settings.some((line) => line.startsWith('table ') && /interface (cni0|veth\*)/.test(line));
  }

  #has(word: string): boolean {
    return this.#settings.some((line) => line.startsWith('table ') && line.includes(word));
  }
}

function answersOf(state: NftState): NftAnswers {
  const table = new TableAnswers(state);
  const frontends: Record<string, Record<Source, Answer>> = {};
  const ranges: Record<string, Record<string, boolean>> = {};
  for (const [key, lines] of state.frontends) {
    const frontend = readFrontend(key, lines);
    const ask = (source: Source): Answer => table.ask(frontend, source);
    frontends[key] = { pod: ask('pod'), node: ask('node'), outside: ask('outside') };
    if (frontend.ranges.length === 0) continue;
    const admits = (client: string): boolean =>
      frontend.ranges.some((range) => range === client || cidrContains(range, client));
    ranges[key] = Object.fromEntries(clients[frontend.family].map((client) => [client, admits(client)]));
  }
  return { frontends, ranges };
}

test('a node serves each client as kube-proxy does there in mode nftables', () => {
  fc.assert(
    fc.property(someService, someNftProfile, someNodes, (service, profile, nodes: readonly Node[]) => {
      const { files } = assemble({ nodes, services: [service] }, configWith({ profiles: [profile] }), true);
      for (const node of nodes)
        expect(answersOf(stateOf(files, node.name))).toEqual(kubeProxyNft(service, node, profile, clients));
    }),
    runs(250),
  );
});
