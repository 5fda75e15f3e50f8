import { compareText, type IpSet, type IpvsState, printCreate, setKeys, setName } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { IpvsOwned, ObservedIpvs, IpvsStep } from './values.ts';

/**
 * Rules that let packets in ask these before the one that shuts them out, so they are filled before it and emptied after
 * it: the firewall set names addresses with source ranges, the other two who may come.
 */
const firewall = new Set((['ipv4', 'ipv6'] as const).map((family) => setName('KUBE-LOAD-BALANCER-FW', family)));

const inOrder = (sets: Iterable<IpSet>): readonly IpSet[] =>
  [...sets].toSorted(
    (a, b) => Number(firewall.has(a.name)) - Number(firewall.has(b.name)) || compareText(a.name, b.name),
  );

const names = (['ipv4', 'ipv6'] as const).flatMap((family) => setKeys.map((key) => setName(key, family)));
const generationForm = /^SLUICE-NEXT-\d{1,2}$/;

/** The name under which a set is filled before it takes its place. Closed: one for each set. */
export function generationName(set: string): string {
  return `SLUICE-NEXT-${names.indexOf(set)}`;
}

/** Whether a set is one that was being filled. */
export function isGenerationName(name: string): boolean {
  return generationForm.test(name);
}

/**
 * Gives every wanted set what it lacks. A set that is not there yet is created and filled; one that lacks a few entries gets
 * them in place; one that lacks many, or must be larger, is filled under a generation name with what it has and what it lacks,
 * and swapped: one operation in the kernel, whatever asks the set. Nothing is taken away here.
 */
export function fillSets(seen: ObservedIpvs, wanted: IpvsState): readonly IpvsStep[] {
  const left = [...seen.sets.keys()].filter(isGenerationName).map((name) => `destroy ${name}`);
  const changes = inOrder(wanted.sets.values()).flatMap((set) => fillSet(seen.sets.get(set.name), set));
  return batch([...left, ...changes], 'sets get what they lack');
}

function fillSet(has: IpSet | undefined, set: IpSet): readonly string[] {
  if (!has) return [printCreate(set), ...[...set.entries].map((entry) => `add ${set.name} ${entry}`)];
  const lacking = [...set.entries].filter((entry) => !has.entries.has(entry));
  const isSmall = (has.maxElements ?? 0) < (set.maxElements ?? 0);
  if (!isSmall && lacking.length <= limits.setEntriesInPlaceMax) {
    return lacking.map((entry) => `add ${set.name} ${entry}`);
  }
  const next = generationName(set.name);
  const maxElements = roomFor(has.entries.size + lacking.length, has, set);
  const size = maxElements === undefined ? {} : { maxElements };
  return [
    printCreate({ ...set, ...size, name: next }),
    ...[...has.entries, ...lacking].map((entry) => `add ${next} ${entry}`),
    `swap ${next} ${set.name}`,
    `destroy ${next}`,
  ];
}

/** Both generations must fit for as long as both are asked. */
function roomFor(count: number, has: IpSet, set: IpSet): number | undefined {
  if (set.maxElements === undefined) return undefined;
  let room = Math.max(has.maxElements ?? 0, set.maxElements);
  while (room < count) room *= 2;
  return room;
}

/** Takes away what no wanted set has: entries in place, then whole sets that are ours, which no rule asks by now. */
export function emptySets(seen: ObservedIpvs, wanted: IpvsState, owned: IpvsOwned): readonly IpvsStep[] {
  const ours = inOrder(seen.sets.values()).toReversed();
  const lines = ours.flatMap((has) => {
    const set = wanted.sets.get(has.name);
    if (!set) return owned.sets.has(has.name) ? [`destroy ${has.name}`] : [];
    return [...has.entries].filter((entry) => !set.entries.has(entry)).map((entry) => `del ${has.name} ${entry}`);
  });
  return batch(lines, 'sets lose what nobody wants');
}

function batch(lines: readonly string[], because: string): readonly IpvsStep[] {
  if (lines.length === 0) return [];
  return [{ kind: 'ipset', text: lines.map((line) => `${line}\n`).join(''), because }];
}
