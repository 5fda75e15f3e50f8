import { addressOfEndpoint, appendTo, compareText, perObject } from '@sluice/netfilter';
import { readPath } from '@sluice/bundle';
import type { AddressFacts, PortFacts, ServiceFacts } from './facts.ts';
import { factsAt } from './read.ts';
import type { BundleView } from '../bundle/view.ts';

/** The facts of one Service in one family, with the file that declares them. */
export interface ServiceEntry {
  readonly path: string;
  readonly profile: string;
  readonly facts: ServiceFacts;
}

/** Services by `shop/web ipv4`. Equal facts of several profiles of one mode are kept once, under the first of them. */
export type ServiceEntries = ReadonlyMap<string, readonly ServiceEntry[]>;

/**
 * The facts of every Service of a bundle, of all modes.
 * @throws Stopped when nodes would refuse a file
 */
export const serviceEntries = perObject(entriesIn);

function entriesIn(view: BundleView): ServiceEntries {
  const entries = new Map<string, ServiceEntry[]>();
  const seen = new Set<string>();
  for (const path of [...view.files.keys()].toSorted(compareText)) {
    const what = readPath(path);
    if (what?.kind !== 'service') continue;
    for (const facts of factsAt(view, path)) {
      if (facts.ports.length === 0) continue;
      const text = `${what.tool} ${JSON.stringify(facts)}`;
      if (seen.has(text)) continue;
      seen.add(text);
      const key = `${facts.service} ${facts.family}`;
      appendTo(entries, key, { path, profile: what.profile, facts });
    }
  }
  return entries;
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
