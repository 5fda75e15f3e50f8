import { type ResolvedNode, readPath } from '@sluice/bundle';
import {
  type Family,
  fillHost,
  frontendMark,
  ipvsHost,
  lineFamily,
  readFrontendKey,
  readServerLine,
} from '@sluice/netfilter';
import type { Frontend } from '../doctor/facts.ts';
import type { ServiceNames } from '../ports/node-state.ts';

/** The addresses of a machine. */
export type MachineAddresses = Readonly<Record<Family, readonly string[]>>;

/** `ipv4 10.96.0.10 tcp 80`; of a node port `ipv4 * tcp 30080`. */
export const frontendKeyOf = (
  family: Family,
  { address, protocol, port }: Pick<Frontend, 'address' | 'protocol' | 'port'>,
): string => `${family} ${address ?? '*'} ${protocol} ${port}`;

/** Services by the keys of their frontends, in mode nftables. */
export function namesOf(services: ServiceNames): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [service, names] of services)
    for (const name of names) {
      if (!name.startsWith(frontendMark)) continue;
      const { family, address, protocol, port } = readFrontendKey(name.slice(frontendMark.length));
      const isAny = address === '0.0.0.0' || address === '::';
      found.set(frontendKeyOf(family, { address: isAny ? undefined : address, protocol, port }), service);
    }
  return found;
}

/** Services by the keys of their virtual servers, in mode ipvs: by the names of the files that have them. */
export function namesOfServers(
  { profile, ipvs }: Pick<ResolvedNode, 'profile' | 'ipvs'>,
  addresses: MachineAddresses,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (!ipvs) return found;
  const host = ipvsHost(profile, addresses);
  for (const { path, lines } of ipvs.ipvs) {
    const of = readPath(path);
    if (of?.kind !== 'service') continue;
    for (const { text } of lines) {
      if (!text.startsWith('-A ')) continue;
      for (const line of fillHost(text, host[lineFamily('ipvs', text)])) {
        const read = readServerLine(line);
        if (!('error' in read) && read.kind === 'virtual')
          found.set(frontendKeyOf(read.server.family, read.server), `${of.namespace}/${of.name}`);
      }
    }
  }
  return found;
}

/** The Services of `quarantine.yaml`, as `sluice render` writes it; other lines say nothing here. */
export function readQuarantine(text: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  let codes: string[] = [];
  for (const line of text.split('\n')) {
    const object = /^ {2}- object: (.*)$/.exec(line)?.[1];
    const code = /^ {6}- code: ([A-Z][A-Z0-9_]*)$/.exec(line)?.[1];
    if (object !== undefined) {
      codes = [];
      const service = /^Service ([a-z0-9][-a-z0-9]*\/[a-z0-9][-a-z0-9]*)$/.exec(object)?.[1];
      if (service !== undefined) found.set(service, codes);
    } else if (code !== undefined) codes.push(code);
  }
  return found;
}
