import { compareText, shortList } from '@sluice/netfilter';
import type { ChangedFlow } from '../../diff/flow-changes.ts';
import type { Branch, FlowOutcome } from '../../flows/flow.ts';
import { effectOf, type FlowEffect } from '../../report/turn.ts';
import {
  destinationText,
  endText,
  nodesText,
  outcomeText,
  packetText,
  percentText,
  sourceText,
} from '../../report/words.ts';
import type { PageBranch, PageFlow } from './data.ts';

/** Lost traffic first. */
export const turnOrder = { closes: 0, opens: 1, moves: 2 } as const satisfies Record<FlowEffect, number>;

/** The maxima that keep a page below 3 MB: a flow of 5,000 endpoints alone has 500 kB. */
const shownMaxima = { flows: 1_000, characters: 600_000 } as const;

/** The first flows for which a page has room. */
export function shownFlows(flows: readonly PageFlow[]): readonly PageFlow[] {
  let characters = 0;
  const cut = flows.findIndex((flow, at) => {
    characters += JSON.stringify(flow).length;
    return at >= shownMaxima.flows || characters > shownMaxima.characters;
  });
  return cut === -1 ? flows : flows.slice(0, cut);
}

/** A flow as the page shows it. */
export function pageFlow(flow: ChangedFlow): PageFlow {
  const sources = [flow.source, ...flow.alsoFrom];
  const branches = branchesOf(flow.old, flow.new);
  return {
    services: flow.destination.services.join(', ') || 'other traffic',
    to: destinationText(flow.destination),
    from: sources.map(sourceText).join(', '),
    on: nodesText(flow.nodes),
    what: whatText(branches, flow.old, flow.new),
    packet: packetText(flow),
    turn: effectOf(flow.old, flow.new),
    sources: [...new Set(sources.map((source) => source.class))],
    branches,
    old: outcomeText(flow.old),
    new: outcomeText(flow.new),
  };
}

/** The ends of connections of both sides: those that leave, then those that come, then those that stay. */
function branchesOf(old: FlowOutcome, updated: FlowOutcome): readonly PageBranch[] {
  const [before, after] = [byEnd(old), byEnd(updated)];
  const ends = [...new Set([...before.keys(), ...after.keys()])].toSorted(compareText);
  const order = ({ before: was, after: is }: PageBranch): number => (is === undefined ? 0 : was === undefined ? 1 : 2);
  return ends
    .map((to): PageBranch => {
      const [was, is] = [before.get(to), after.get(to)];
      return {
        to,
        ...(was === undefined ? {} : { before: was.share }),
        ...(is === undefined ? {} : { after: is.share }),
        masked: [was?.masquerade ?? false, is?.masquerade ?? false],
      };
    })
    .toSorted((a, b) => order(a) - order(b));
}

const byEnd = ({ branches }: FlowOutcome): ReadonlyMap<string, Branch> =>
  new Map(branches.map((branch) => [endText(branch), branch]));

/** `− 10.244.3.6:9000; 2 stay, 33.3333 % → 50 %; masquerading ends` */
function whatText(branches: readonly PageBranch[], old: FlowOutcome, updated: FlowOutcome): string {
  const [leave, come, stay] = [
    branches.filter(({ after }) => after === undefined),
    branches.filter(({ before }) => before === undefined),
    branches.filter(({ before, after }) => before !== undefined && after !== undefined),
  ];
  const parts = [
    leave.length === 0 ? '' : `− ${some(leave)}`,
    come.length === 0 ? '' : `+ ${some(come)}`,
    stay.length === 0 ? '' : `${stay.length} ${stay.length === 1 ? 'stays' : 'stay'}${sharesText(stay)}`,
    maskText(old, updated),
    old.affinity === updated.affinity ? '' : `affinity ${old.affinity ?? 'none'} → ${updated.affinity ?? 'none'}`,
    old.scheduler === updated.scheduler ? '' : `scheduler ${old.scheduler ?? 'none'} → ${updated.scheduler ?? 'none'}`,
  ];
  return parts.filter(Boolean).join('; ');
}

const some = (branches: readonly PageBranch[]): string =>
  shortList(
    branches.map(({ to }) => to),
    2,
  );

function sharesText(stay: readonly PageBranch[]): string {
  const turns = new Set(stay.map(({ before = 0, after = 0 }) => `${shortPercent(before)} → ${shortPercent(after)}`));
  const [turn = ''] = turns;
  if (turns.size > 1) return ' in other shares';
  const [was, is] = turn.split(' → ');
  return was === is ? '' : ` with ${turn}`;
}

const shortPercent = (share: number): string => percentText(Math.round(share * 1000) / 1000);

function maskText(old: FlowOutcome, updated: FlowOutcome): string {
  const masked = ({ branches }: FlowOutcome): boolean | undefined => {
    const ends = branches.filter(({ to }) => to !== undefined);
    if (ends.length === 0) return undefined;
    return ends.every(({ masquerade }) => masquerade);
  };
  const [was, is] = [masked(old), masked(updated)];
  if (was === undefined || is === undefined || was === is) return '';
  return is ? 'masquerading starts' : 'masquerading ends';
}
