import { printEndpoint, type Rule } from '../rules/rule.ts';

/** The destination port that a rule matches. */
export function matchedPort({ matches }: Rule): number | undefined {
  for (const match of matches) if ('destinationPort' in match) return match.destinationPort;
  return undefined;
}

/** The one destination address that a rule matches, as in `-d 10.96.0.10`; undefined for a network, and for a negated match. */
export function matchedAddress({ destination }: Rule): string | undefined {
  if (!destination || destination.negated) return undefined;
  const { value } = destination;
  const whole = value.includes(':') ? '/128' : '/32';
  return value.endsWith(whole) ? value.slice(0, -whole.length) : undefined;
}

/** The endpoint to which a rule translates: `10.244.1.5:8080`. */
export function endpointOf({ target }: Rule): string | undefined {
  return target?.kind === 'dnat' ? printEndpoint(target.address, target.port) : undefined;
}

/** The maximum age of the list of clients that a rule searches: session affinity. 0: any age. */
export function affinitySeconds({ matches }: Rule): number | undefined {
  for (const match of matches) if (match.kind === 'recent' && match.action === 'rcheck') return match.seconds ?? 0;
  return undefined;
}

/** `10.244.1.5` of `10.244.1.5:8080`, `fd00::1` of `[fd00::1]:8080`. */
export function addressOfEndpoint(endpoint: string): string {
  return endpoint.slice(0, endpoint.lastIndexOf(':')).replaceAll(/[[\]]/g, '');
}
