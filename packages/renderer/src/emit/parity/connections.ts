import type { ParityConnection, ParityConnections } from '@sluice/bundle';

/** Pairs that are printed, those with most connections first. */
const pairsMax = 20;

const meaning: Readonly<Record<Exclude<ParityConnection['after'], 'kept'>, string>> = {
  stale: 'the bundle has no such endpoint there: they last until a peer closes them or they time out',
  removed: 'the bundle has no such endpoint there: sluiced deletes the flows, and clients get another endpoint',
  ends: 'IPVS forwards them: they end when its virtual servers are removed',
};

/** Tracked connections: how many are kept, and each frontend and endpoint whose ones are not. */
export function connectionsText({ pairs, notCovered }: ParityConnections): string {
  const kept = pairs.filter(({ after }) => after === 'kept');
  const others = pairs.filter(({ after }) => after !== 'kept').toSorted((a, b) => b.count - a.count);
  const elsewhere = notCovered.elsewhere === 0 ? '' : `; ${notCovered.elsewhere} to no frontend`;
  const left = notCovered.left === 0 ? '' : `; ${notCovered.left} behind the limit, not covered`;
  return [
    `connections: ${sum(pairs)} tracked, ${sum(kept)} stay with their endpoints${elsewhere}${left}\n`,
    ...others.slice(0, pairsMax).map(lineOf),
    others.length > pairsMax ? `    and ${sum(others.slice(pairsMax))} more\n` : '',
  ].join('');
}

const sum = (pairs: readonly ParityConnection[]): number => pairs.reduce((all, { count }) => all + count, 0);

function lineOf({ after, frontend, services, endpoint, count }: ParityConnection): string {
  const name = services.length === 0 ? '' : ` (${services.join(', ')})`;
  return after === 'kept' ? '' : `    ${after} ${count}: ${frontend}${name} → ${endpoint}: ${meaning[after]}\n`;
}
