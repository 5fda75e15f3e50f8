import fc from 'fast-check';
import type { Family } from '../../family.ts';
import { printWords } from '../../rules/address.ts';
import type { FileSections } from '../section.ts';
import { printEndpoint } from '../../rules/rule.ts';
import type { ResolvedRules } from '../program.ts';

/** The properties of a Service port that its rules depend on. */
export interface ServiceSpec {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly port: number;
  readonly cluster: string;
  readonly external?: string | undefined;
  readonly balancer?: string | undefined;
  readonly nodePort?: number | undefined;
  readonly endpoints: number;
  readonly local: boolean;
}

/** Addresses with nested prefixes: single bits, runs, random ones; and the node's own, which is a legal external IP. */
export function addresses(family: Family): fc.Arbitrary<string> {
  const size = family === 'ipv4' ? 2 : 8;
  const base = family === 'ipv4' ? [0x0a60, 0] : [0xfd00, 0x10, 0, 0, 0, 0, 0, 0];
  const singleBit = fc.integer({ min: 16, max: size * 16 - 1 }).map((bit) => {
    const words = [...base];
    words[bit >> 4] = (words[bit >> 4] ?? 0) ^ (0x8000 >> (bit & 15));
    return words;
  });
  const run = fc.integer({ min: 1, max: 40 }).map((last) => [...base.slice(0, -1), last]);
  const any = fc
    .array(fc.integer({ min: 1, max: 0xdfff }), { minLength: size - 1, maxLength: size - 1 })
    .map((words) => [family === 'ipv4' ? 0xc000 : 0x2001, ...words]);
  return fc.oneof(singleBit, run, any).map(printWords);
}

export function services(family: Family): fc.Arbitrary<readonly ServiceSpec[]> {
  const address = addresses(family);
  const spec = fc.record({
    protocol: fc.constantFrom('tcp', 'udp', 'sctp'),
    port: fc.oneof(fc.integer({ min: 1, max: 65_535 }), fc.constantFrom(53, 80, 30_080)),
    cluster: address,
    external: fc.option(fc.oneof(address, fc.constant(nodeAddress(family))), { nil: undefined }),
    balancer: fc.option(address, { nil: undefined }),
    nodePort: fc.option(fc.integer({ min: 30_000, max: 30_100 }), { nil: undefined }),
    endpoints: fc.oneof({ weight: 29, arbitrary: fc.integer({ min: 0, max: 4 }) }, fc.integer({ min: 30, max: 70 })),
    local: fc.boolean(),
  }) satisfies fc.Arbitrary<ServiceSpec>;
  return fc.array(spec, { maxLength: 30, size: 'max' }).map(withoutConflicts);
}

/** The first Service keeps an address and port, as in Kubernetes; several Services may share an address. */
function withoutConflicts(specs: readonly ServiceSpec[]): readonly ServiceSpec[] {
  const seen = new Set<string>();
  const isNew = (key: string): boolean => !seen.has(key) && seen.add(key) !== undefined;
  return specs.filter((spec) => {
    const { protocol, port, nodePort } = spec;
    const keys = [spec.cluster, spec.external, spec.balancer].flatMap((ip) =>
      ip === undefined ? [] : [`${ip} ${protocol} ${port}`],
    );
    if (nodePort !== undefined) keys.push(`node ${protocol} ${nodePort}`);
    return new Set(keys).size === keys.length && keys.every((key) => !seen.has(key)) && keys.every(isNew);
  });
}

export function nodeAddress(family: Family): string {
  return family === 'ipv4' ? '192.0.2.10' : '2001:db8::10';
}

export function endpointOf(family: Family, service: number, index: number): string {
  return family === 'ipv4'
    ? `10.${240 + (service >> 8)}.${service & 255}.${index + 1}`
    : `fd00:10:244:${service.toString(16)}::${(index + 1).toString(16)}`;
}

/** kube-proxy's rules for the Services on a node without session affinity. */
export function rulesOf(specs: readonly ServiceSpec[], family: Family): ResolvedRules {
  const rules = {
    filter: {
      chains: ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-FORWARD', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL'],
      rules: [...forward],
    },
    nat: { chains: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'], rules: [...masquerade] },
  };
  for (const [index, spec] of specs.entries()) new RuleWriter(family, index, spec, rules).write();
  rules.nat.rules.push('-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS');
  return rules;
}

/** The file of one Service: its rules in `rulesOf` without those that all Services share. */
export function serviceFile(number: number, spec: ServiceSpec, family: Family): FileSections {
  const rules = { filter: { chains: [], rules: [] }, nat: { chains: [], rules: [] } };
  new RuleWriter(family, number, spec, rules).write();
  return sectionsFrom(rules);
}

/** The rules before and after those of all Services. */
export function baseFiles(): { readonly first: FileSections; readonly last: FileSections } {
  const { filter, nat } = rulesOf([], 'ipv4');
  const tail = nat.rules.slice(masquerade.length);
  return {
    first: sectionsFrom({ filter, nat: { chains: nat.chains, rules: masquerade } }),
    last: sectionsFrom({ filter: { chains: [], rules: [] }, nat: { chains: [], rules: tail } }),
  };
}

const sectionsFrom = ({ filter, nat }: ResolvedRules): FileSections => [
  { table: 'filter', ...filter },
  { table: 'nat', ...nat },
];

const masquerade = [
  '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
  '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
  '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
];

const forward = [
  '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
  '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
  '-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
];

interface ClusterRules {
  readonly filter: { readonly chains: string[]; readonly rules: string[] };
  readonly nat: { readonly chains: string[]; readonly rules: string[] };
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** 16 characters that differ for each number, spread like a hash. */
function hash16(number: number): string {
  let state = (number * 2_654_435_761 + 1) >>> 0;
  let text = '';
  for (let at = 0; at < 16; at++) {
    text += alphabet[(state >>> 27) & 31];
    state = (Math.imul(state, 1_664_525) + 1_013_904_223 + number) >>> 0;
  }
  return text;
}

class RuleWriter {
  readonly #family: Family;
  readonly #index: number;
  readonly #spec: ServiceSpec;
  readonly #rules: ClusterRules;

  constructor(family: Family, index: number, spec: ServiceSpec, rules: ClusterRules) {
    this.#family = family;
    this.#index = index;
    this.#spec = spec;
    this.#rules = rules;
  }

  write(): void {
    if (this.#spec.endpoints === 0) this.#reject();
    else this.#serve();
  }

  #to(address: string): string {
    return `-d ${address} ${this.#on(this.#spec.port)}`;
  }

  #on(port: number): string {
    return `-p ${this.#spec.protocol} -m ${this.#spec.protocol} --dport ${port}`;
  }

  #reject(): void {
    const { cluster, external, balancer, nodePort } = this.#spec;
    const { filter } = this.#rules;
    filter.rules.push(`-A KUBE-SERVICES ${this.#to(cluster)} -j REJECT`);
    for (const address of [external, balancer]) {
      if (address !== undefined) filter.rules.push(`-A KUBE-EXTERNAL-SERVICES ${this.#to(address)} -j REJECT`);
    }
    if (nodePort === undefined) return;
    const verdict = this.#spec.local ? 'DROP' : 'REJECT';
    filter.rules.push(`-A KUBE-EXTERNAL-SERVICES -m addrtype --dst-type LOCAL ${this.#on(nodePort)} -j ${verdict}`);
  }

  #serve(): void {
    const { cluster, external, balancer, nodePort } = this.#spec;
    const { filter, nat } = this.#rules;
    const id = hash16(this.#index + 1);
    const [svc, ext, fw] = ['SVC', 'EXT', 'FW'].map((kind) => `KUBE-${kind}-${id}`) as [string, string, string];
    nat.chains.push(svc, ext, fw);
    nat.rules.push(`-A KUBE-SERVICES ${this.#to(cluster)} -j ${svc}`);
    if (external !== undefined) nat.rules.push(`-A KUBE-SERVICES ${this.#to(external)} -j ${ext}`);
    nat.rules.push(`-A ${ext} -j KUBE-MARK-MASQ`, `-A ${ext} -j ${svc}`);
    if (balancer !== undefined) {
      nat.rules.push(
        `-A KUBE-SERVICES ${this.#to(balancer)} -j ${fw}`,
        `-A ${fw} -s ${this.#family === 'ipv4' ? '198.51.100.0/24' : '2001:db8:51::/48'} -j ${ext}`,
      );
      filter.rules.push(`-A KUBE-PROXY-FIREWALL ${this.#to(balancer)} -j DROP`);
    }
    if (nodePort !== undefined) nat.rules.push(`-A KUBE-NODEPORTS ${this.#on(nodePort)} -j ${ext}`);
    if (this.#spec.local) filter.rules.push(`-A KUBE-NODEPORTS ${this.#on(32_000 + this.#index)} -j ACCEPT`);
    this.#endpoints(svc);
  }

  #endpoints(svc: string): void {
    const { nat } = this.#rules;
    const { endpoints, protocol } = this.#spec;
    for (let at = 0; at < endpoints; at++) {
      const sep = `KUBE-SEP-${hash16(1000 + this.#index * 100 + at)}`;
      const address = endpointOf(this.#family, this.#index, at);
      const left = endpoints - at;
      const chance = left === 1 ? '' : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `;
      nat.chains.push(sep);
      nat.rules.push(
        `-A ${svc} ${chance}-j ${sep}`,
        `-A ${sep} -s ${address} -j KUBE-MARK-MASQ`,
        `-A ${sep} -p ${protocol} -m ${protocol} -j DNAT --to-destination ${printEndpoint(address, 8080)}`,
      );
    }
  }
}
