import { randomOf } from '@sluice/testing';
import type { DataPlane } from '../netns/sluiced-node.ts';

/** What is wrong with a tool, or with what it needs; `flushed`: right before its call another program takes our rules away, once. */
export const troubles = ['missing', 'hang', 'crash', 'garbage', 'silent', 'slow', 'locked', 'full', 'flushed'] as const;
export type Trouble = (typeof troubles)[number];

/**
 * Where a release is when the trouble begins. `call N`: after the release came, the first N - 1 calls of the tool work, so that the trouble
 * begins while it is rehearsed, staged, verified or cut over.
 */
export const phases = [
  'idle',
  'flush',
  'arrival',
  'call 2',
  'call 4',
  'call 7',
  'probation',
  'rollback',
  'endpoints',
  'boot',
] as const;
export type Phase = (typeof phases)[number];

/** Tools that are in trouble together: those that write rules, read them, or serve a release beside them; `every`: all. */
export const groups = ['writers', 'readers', 'ipset', 'ipvsadm', 'ip', 'conntrack', 'every'] as const;
export type Group = (typeof groups)[number];

/** Tools, and the kind of trouble that they are in. */
export interface ToolTrouble {
  readonly group: Group;
  readonly trouble: Trouble;
}

/** One run: a plane, the moment that the trouble begins, and perhaps a second one that begins with it. */
export interface Cell extends ToolTrouble {
  readonly plane: DataPlane;
  readonly phase: Phase;
  readonly also?: ToolTrouble;
}

/** The names of the tools of a group, in /usr/sbin; none where the plane has none. */
export function toolsOf({ backend, mode }: DataPlane, group: Group): readonly string[] {
  const both = (end: string): readonly string[] => [`iptables-${backend}${end}`, `ip6tables-${backend}${end}`];
  const isNftables = mode === 'nftables';
  switch (group) {
    case 'writers':
      return isNftables ? ['nft'] : both('-restore');
    case 'readers':
      return isNftables ? [] : both('-save');
    case 'ipset':
      return isNftables ? [] : ['ipset'];
    case 'ipvsadm':
    case 'ip':
      return mode === 'ipvs' ? [group] : [];
    case 'conntrack':
      return ['conntrack'];
    case 'every':
      return [...both(''), ...both('-restore'), ...both('-save'), ...beside(mode)];
  }
}

/** Besides those of the rule store. */
const beside = (mode: DataPlane['mode']): readonly string[] =>
  mode === 'ipvs' ? ['ipset', 'ipvsadm', 'ip', 'conntrack'] : ['nft', 'ipset', 'conntrack'];

/**
 * The lock is that of legacy tools; a lock and a full directory are no fault of single tools. Conntrack is looked for and never called, as no
 * endpoint of UDP goes: so said a count of all calls in each phase of each plane.
 */
const exists = (plane: DataPlane, { group, trouble }: ToolTrouble): boolean => {
  if (trouble === 'locked') return group === 'every' && plane.backend === 'legacy';
  if (trouble === 'full') return group === 'every';
  if (trouble === 'flushed' && group === 'every') return false;
  if (group === 'conntrack') return trouble === 'missing';
  return toolsOf(plane, group).length > 0;
};

/** Such as `nft iptables: missing writers at call 4`; `SLUICE_SURROUNDINGS` takes it. */
export const printCell = ({ plane: { backend, mode }, group, trouble, phase, also }: Cell): string =>
  `${backend} ${mode}: ${trouble} ${group}${also ? ` and ${also.trouble} ${also.group}` : ''} at ${phase}`;

/** The troubles of a plane. */
const troublesOf = (plane: DataPlane): readonly ToolTrouble[] =>
  groups.flatMap((group) => troubles.map((trouble) => ({ group, trouble }))).filter((one) => exists(plane, one));

/** Every cell of these planes with one trouble. */
export const cellsOf = (planes: readonly DataPlane[]): readonly Cell[] =>
  planes.flatMap((plane) => troublesOf(plane).flatMap((one) => phases.map((phase) => ({ plane, ...one, phase }))));

/** What a tool needs may be in trouble beside any tool: it makes nothing of the tool's own trouble invisible. */
const places: ReadonlySet<Trouble> = new Set(['locked', 'full', 'flushed']);

/** Every cell of these planes with two troubles at once: of what tools need and of tools, or of two groups that share no tool. */
export const pairsOf = (planes: readonly DataPlane[]): readonly Cell[] =>
  planes.flatMap((plane) => {
    const all = troublesOf(plane);
    const share = (a: Group, b: Group): boolean => toolsOf(plane, a).some((name) => toolsOf(plane, b).includes(name));
    return all.flatMap((one, at) =>
      all
        .slice(at + 1)
        .filter((also) =>
          [one, also].some(({ trouble }) => places.has(trouble))
            ? one.trouble !== also.trouble
            : !share(one.group, also.group),
        )
        .flatMap((also) => phases.map((phase) => ({ plane, ...one, also, phase }))),
    );
  });

/** Some cells, drawn without repetition: the same for the same seed. */
export function drawn(cells: readonly Cell[], count: number, seed: number): readonly Cell[] {
  const random = randomOf(seed);
  return cells
    .map((cell) => ({ cell, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, count)
    .map(({ cell }) => cell);
}
