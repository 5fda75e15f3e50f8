import { compareText } from '@sluice/netfilter';
import type { PortFacts, ServiceFacts } from './facts.ts';
import { numberAndProtocolOf } from './port-key.ts';

/** A port before and after; one side may be missing. */
interface PortPair {
  readonly old?: PortFacts;
  readonly new?: PortFacts;
}

/**
 * The ports that a Service has in either bundle, by key. Clients identify a port by number and protocol, so a renamed port is the same
 * port: otherwise a lost endpoint would look like a removed and an added port.
 */
export function portPairs(old: ServiceFacts | undefined, fresh: ServiceFacts | undefined): readonly PortPair[] {
  const before = new Map((old?.ports ?? []).map((port) => [numberAndProtocolOf(port), port]));
  const after = new Map((fresh?.ports ?? []).map((port) => [numberAndProtocolOf(port), port]));
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((number): PortPair => {
      const [was, is] = [before.get(number), after.get(number)];
      return { ...(was === undefined ? {} : { old: was }), ...(is === undefined ? {} : { new: is }) };
    })
    .toSorted((a, b) => compareText(keyOf(a), keyOf(b)));
}

const keyOf = (pair: PortPair): string => (pair.new ?? pair.old)!.key;
