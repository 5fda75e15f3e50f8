import { addressOfEndpoint, compareText, type Family } from '@sluice/netfilter';
import { readPath } from '@sluice/bundle';
import type { AddressFacts, PortFacts, ServiceFacts } from './facts.ts';
import { factsOf } from './of-rules.ts';
import { rulesAt } from '../bundle/files.ts';
import type { BundleView } from '../bundle/view.ts';
import { virtualFacts } from './of-servers.ts';

/** The facts of one Service in one family, with the file that declares them. */
export interface ServiceEntry {
  readonly path: string;
  readonly profile: string;
  readonly facts: ServiceFacts;
}

/** Services by `shop/web ipv4`. Equal facts of several profiles are kept once, under the first of them. */
export type ServiceEntries = ReadonlyMap<string, readonly ServiceEntry[]>;

const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];

/**
 * The facts of every Service of a bundle, of both modes.
 * @throws ReviewStopped when nodes would refuse a file
 */
export function serviceEntries(view: BundleView): ServiceEntries {
  const entries = new Map<string, ServiceEntry[]>();
  const seen = new Set<string>();
  for (const path of [...view.files.keys()].toSorted(compareText)) {
    const what = readPath(path);
    if (what?.kind !== 'service') continue;
    const service = `${what.namespace}/${what.name}`;
    for (const facts of factsAt(view, path, service, what.tool)) {
      if (facts.ports.length === 0) continue;
      const text = JSON.stringify(facts);
      if (seen.has(text)) continue;
      seen.add(text);
      const key = `${service} ${facts.family}`;
      entries.set(key, [...(entries.get(key) ?? []), { path, profile: what.profile, facts }]);
    }
  }
  return entries;
}

/**
 * The facts of a Service from one of its files, by family; an `.ipset` is read with the `.ipvs` beside it.
 * @throws ReviewStopped when nodes would refuse the file
 */
export function factsAt(
  view: Pick<BundleView, 'files' | 'memory'>,
  path: string,
  service: string,
  tool: string,
): readonly ServiceFacts[] {
  const text = view.files.get(path) ?? '';
  if (tool === 'ipvs') {
    const ipset = view.files.get(path.replace(/ipvs$/, 'ipset'));
    return families.map((family) => virtualFacts(service, family, { ipvs: text, ipset }));
  }
  if (tool === 'ipset') return [];
  return [factsOf(service, tool === 'iptables' ? 'ipv4' : 'ipv6', rulesAt(view, path))];
}

/** The addresses of a kind, each once. */
export function hostsOf(ports: readonly PortFacts[], kinds: readonly AddressFacts['kind'][]): readonly string[] {
  const hosts = ports.flatMap(({ addresses }) =>
    addresses.filter(({ kind }) => kinds.includes(kind)).map(({ text }) => addressOfEndpoint(text)),
  );
  return [...new Set(hosts)].toSorted(compareText);
}

/** The first line of a file with a text; 1 if none has it. */
export function lineOf(view: BundleView, path: string, text: string): number {
  const all = view.files.get(path) ?? '';
  const at = all.indexOf(text);
  return at < 0 ? 1 : all.slice(0, at).split('\n').length;
}
