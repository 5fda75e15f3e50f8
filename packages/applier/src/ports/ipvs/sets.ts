import { compareText, type IpSet, type IpvsState, printCreate, setKeys, setName } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { IpvsOwned, ObservedIpvs, IpvsStep } from './values.ts';

/**
 * The firewall set names the frontends with source ranges; rules match it after the sets of allowed sources. So it is filled after these
 * and emptied before them.
 */
const firewall = new Set((['ipv4', 'ipv6'] as const).map((family) => setName('KUBE-LOAD-BALANCER-FW', family)));

const inOrder = (sets: Iterable<IpSet>): readonly IpSet[] =>
  [...sets].toSorted(
    (a, b) => Number(firewall.has(a.name)) - Number(firewall.has(b.name)) || compareText(a.name, b.name),
  );

const names = (['ipv4', 'ipv6'] as const).flatMap((family) => setKeys.map((key) => setName(key, family)));
const generationForm = /^SLUICE-NEXT-\d{1,2}$/;

/** The name under which a new generation of a set is filled before it is swapped in. One for each set. */
function generationName(set: string): string {
  return `SLUICE-NEXT-${names.indexOf(set)}`;
}

/** Whether a set is a new generation that was being filled. */
export function isGenerationName(name: string): boolean {
  return generationForm.test(name);
}

/**
 * Adds missing sets and entries. A missing set is created and filled; a few missing entries are added in place; for many, or if the set
 * must be larger, a new generation with the old and the new entries is filled and swapped in, which is one operation in the kernel.
 * Nothing is removed here.
 */
export function fillSets(observed: ObservedIpvs, desired: IpvsState): readonly IpvsStep[] {
  const left = [...observed.sets.keys()].filter(isGenerationName).map((name) => `destroy ${name}`);
  const changes = inOrder(desired.sets.values()).flatMap((set) => fillSet(observed.sets.get(set.name), set));
  return batch([...left, ...changes], 'missing sets and entries');
}

function fillSet(has: IpSet | undefined, set: IpSet): readonly string[] {
  if (!has) return [printCreate(set), ...[...set.entries].map((entry) => `add ${set.name} ${entry}`)];
  const lacking = [...set.entries].filter((entry) => !has.entries.has(entry));
  const isSmall = (has.maxElements ?? 0) < (set.maxElements ?? 0);
  if (!isSmall && lacking.length <= limits.setEntriesInPlaceMax) {
    return lacking.map((entry) => `add ${set.name} ${entry}`);
  }
  const next = generationName(set.name);
  const maxElements = capacityFor(has.entries.size + lacking.length, has, set);
  const size = maxElements === undefined ? {} : { maxElements };
  return [
    printCreate({ ...set, ...size, name: next }),
    ...[...has.entries, ...lacking].map((entry) => `add ${next} ${entry}`),
    `swap ${next} ${set.name}`,
    `destroy ${next}`,
  ];
}

/** The old and the new entries must fit at the same time. */
function capacityFor(count: number, has: IpSet, set: IpSet): number | undefined {
  if (set.maxElements === undefined) return undefined;
  let capacity = Math.max(has.maxElements ?? 0, set.maxElements);
  while (capacity < count) capacity *= 2;
  return capacity;
}

/** Removes unused entries in place, and unused sets of ours, which no rule matches any more. */
export function emptySets(observed: ObservedIpvs, desired: IpvsState, owned: IpvsOwned): readonly IpvsStep[] {
  const ours = inOrder(observed.sets.values()).toReversed();
  const lines = ours.flatMap((has) => {
    const set = desired.sets.get(has.name);
    if (!set) return owned.sets.has(has.name) ? [`destroy ${has.name}`] : [];
    return [...has.entries].filter((entry) => !set.entries.has(entry)).map((entry) => `del ${has.name} ${entry}`);
  });
  return batch(lines, 'unused sets and entries');
}

function batch(lines: readonly string[], because: string): readonly IpvsStep[] {
  if (lines.length === 0) return [];
  return [{ kind: 'ipset', text: lines.map((line) => `${line}\n`).join(''), because }];
}
