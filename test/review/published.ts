import type { Comparison } from '../../packages/review/src/prove/equivalence.ts';

/** A difference for all traffic is reported once for a profile. */
export const isOfAll = (code: string): boolean =>
  ['DIFFERS_OTHER_PORTS', 'DIFFERS_CLUSTER_IPS', 'DIFFERS_CLOSED_NODE_PORTS'].includes(code);

/**
 * Differences that the first packet of a client need not show: the endpoint of the next one at another address, the treatment of
 * INVALID packets, whether a rule or the kernel refuses it without endpoints, and node ports at other addresses of a node or
 * where each has an endpoint.
 */
const notByFlows: readonly string[] = [
  'DIFFERS_AFFINITY',
  'DIFFERS_INVALID',
  'DIFFERS_NO_ENDPOINT',
  'DIFFERS_NODE_PORTS',
  'DIFFERS_CLOSED_NODE_PORTS',
];

/** Services of which a comparison shows that no endpoint serves them: none shows an open node port then. */
export const refusedIn = (compared: readonly Comparison[]): ReadonlySet<string> =>
  new Set(
    compared
      .flatMap(({ differences }) => differences)
      .filter(({ code }) => code === 'DIFFERS_NO_ENDPOINT' || code === 'DIFFERS_CLOSED_NODE_PORTS')
      .flatMap(({ services }) => services),
  );

/**
 * Which of the reported lines, `shop/web DIFFERS_…`, flows need not show.
 * @param refused from `refusedIn`
 * @param isClosed whether node ports are not open on the addresses of nodes: then nothing shows how they serve policy Local
 */
export function mayBeUnseen(line: string, refused: ReadonlySet<string>, isClosed = false): boolean {
  const ends = (codes: readonly string[]): boolean => codes.some((code) => line.endsWith(code));
  if (ends(notByFlows) || (isClosed && ends(['DIFFERS_LOCAL_FALLBACK', 'DIFFERS_LOCAL_INSIDE']))) return true;
  return refused.has(line.split(' ')[0] ?? '') && ends(['DIFFERS_LOCALHOST']);
}
