import type { Branch, FlowOutcome } from '../flows/flow.ts';

/** `masquerade dnat 10.244.1.5:8080 50 % | 10.244.2.7:8080 50 %; affinity 10800 s`: branches that are treated alike are listed together. */
export function printOutcome({ branches, affinity }: FlowOutcome): string {
  const groups = Map.groupBy(branches, labelOf);
  const texts = [...groups].map(([label, list]) => {
    const ends = list.flatMap(({ to, share }) =>
      to === undefined ? [] : [`${to}${shareText(share, branches.length)}`],
    );
    return [label, ends.join(' | ')].filter(Boolean).join(' ');
  });
  return [texts.join(', '), ...(affinity === undefined ? [] : [`affinity ${affinity}`])].join('; ');
}

const labelOf = ({ verdict, masquerade, reject }: Branch): string =>
  [masquerade ? 'masquerade' : '', verdict, reject ?? ''].filter(Boolean).join(' ');

const shareText = (share: number, count: number): string => (count < 2 ? '' : ` ${Number((share * 100).toFixed(2))} %`);
