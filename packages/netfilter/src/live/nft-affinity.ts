import { families, type Family } from '../family.ts';
import { type Json, objectOf, textOf } from './nft-values.ts';
import type { Effect } from './rule.ts';

/** Session affinity of Sluice's own table, which keeps the endpoint of a client in `meta priority`. */

export const isPriority = (expression: unknown): boolean =>
  textOf(objectOf(objectOf(expression)['meta'])['key']) === 'priority';

/** `update @aff4 { … timeout 10m : meta priority }`, and `delete`. @param fills for how many seconds a map keeps clients; undefined: packets do not fill it */
export function updateOf(
  { op, elem, data, map }: Json,
  fills: (map: string) => number | undefined,
): Effect | undefined {
  const name = textOf(map).replace(/^@/, '');
  const { val = elem, timeout } = objectOf(objectOf(elem)['elem']);
  const family = familyOfClient(val);
  const fillsFor = fills(name);
  if (!family || fillsFor === undefined || !isPriority(data)) return undefined;
  if (op === 'delete') return { kind: 'forget', map: name };
  return { kind: 'remember', map: name, family, seconds: Number(textOf(timeout) || fillsFor) };
}

const clientFields = {
  ipv4: ['ip saddr', 'ip daddr', 'meta l4proto', 'th dport'],
  ipv6: ['ip6 saddr', 'ip6 daddr', 'meta l4proto', 'th dport'],
} as const satisfies Record<Family, readonly string[]>;

/** The family of a key that tells every client of every frontend from the others; undefined: another key. */
export function familyOfClient(key: unknown): Family | undefined {
  const fieldsIn = (part: unknown): readonly string[] => {
    const { concat, payload, meta, jhash } = objectOf(part);
    if (Array.isArray(concat)) return concat.flatMap(fieldsIn);
    if (jhash !== undefined) return fieldsIn(objectOf(jhash)['expr']);
    const { protocol, field } = objectOf(payload);
    return [payload === undefined ? `meta ${textOf(objectOf(meta)['key'])}` : `${textOf(protocol)} ${textOf(field)}`];
  };
  const found = new Set(fieldsIn(key));
  return families.find((family) => {
    const wanted = clientFields[family];
    return found.size === wanted.length && wanted.every((one) => found.has(one));
  });
}
