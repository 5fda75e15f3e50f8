import { anyAddress, type Family, frontendKey, frontendMark, virtualKey } from '@sluice/netfilter';
import type { Frontend } from '../doctor/facts.ts';
import { ownersOf } from '../partial/services.ts';
import type { NodeState } from '../ports/node-state.ts';

/** The Service of a frontend in modes ipvs and nftables, `shop/web`; undefined where the state does not know it. */
export function serviceOfFrontend(
  { nft, services }: Pick<NodeState, 'nft' | 'services'>,
  family: Family,
  frontend: Pick<Frontend, 'address' | 'protocol' | 'port'>,
): string | undefined {
  const at = { ...frontend, address: frontend.address ?? anyAddress[family] };
  return services && ownersOf(services).get(nft ? `${frontendMark}${frontendKey(at)}` : virtualKey(at));
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
