import { document } from '@sluice/cli';
import { plural } from '@sluice/netfilter';
import type { Report, NodeRan } from '@sluice/delivery/fleet/ran.ts';
import type { Commit } from '@sluice/renderer/load/git/commit.ts';
import { instantText, timeText } from '@sluice/renderer/load/git/time.ts';
import type { PacketOutcome, PacketEnd } from '../bisect/outcome.ts';
import { indentedList, percentText } from '../report/words.ts';
import type { NodeTrace } from '../trace/trace-node.ts';
import { printTrace } from './trace.ts';

/** A trace in a commit. */
interface TraceAt {
  readonly commit: Commit;
  readonly trace: NodeTrace;
  /** With receipts. */
  readonly ran?: NodeRan;
}

/** Prints a trace with the commit whose bundle was traced. */
export function printTraceAt({ commit, trace, ran }: TraceAt, format: 'text' | 'json'): string {
  if (format === 'json') return document('TraceAt', { commit: commitOf(commit), trace, ...(ran && { ran }) });
  return `commit ${commitText(commit)}\n${ran ? ranText(ran) : ''}${printTrace(trace, 'text')}`;
}

/** The commit that changed the outcome of a packet, or those that may have. */
export interface Bisection {
  readonly node: string;
  /** `10.244.1.7 → shop/web:80` */
  readonly packet: string;
  readonly dir: string;
  readonly before: OutcomeAt;
  readonly after: OutcomeAt;
  /** Commits between the two about which nothing can be said, the oldest first. */
  readonly between: readonly Commit[];
  /** Why commits were skipped, each with the first of them. */
  readonly skipped: readonly { readonly commit: string; readonly why: string }[];
  /** Commits that change the bundle, from the one after the start to the end. */
  readonly commits: number;
  readonly steps: number;
  /** Whether the packet met other outcomes in between, too. */
  readonly several: boolean;
  /** The files of the node that differ between the two, in byte order. */
  readonly files: readonly string[];
  /** Of a merge: the commit from which its branch started. */
  readonly mergeBase?: string;
  readonly ran?: NodeRan;
}

interface OutcomeAt {
  readonly commit: Commit;
  readonly outcome: PacketOutcome;
}

/** Lines that a list shows. */
const shownMax = 5;

/** Prints what a bisection found. */
export function printBisection(found: Bisection, format: 'text' | 'json'): string {
  if (format === 'json') {
    const { before, after, between, ran, ...rest } = found;
    const at = ({ commit, outcome }: OutcomeAt): object => ({ commit: commitOf(commit), ends: outcome.ends });
    return document('Bisection', {
      ...rest,
      before: at(before),
      after: at(after),
      between: between.map(commitOf),
      ...(ran && { ran }),
    });
  }
  const { before, after, between, files, skipped } = found;
  const head =
    between.length === 0
      ? `${found.packet} on ${found.node} changed with\ncommit ${commitText(after.commit)}\n`
      : `${found.packet} on ${found.node} changed with one of ${between.length + 1} commits:\n${listOf([...between, after.commit].map((one) => `commit ${commitText(one)}`))}`;
  return [
    head,
    `\nbefore, in ${short(before.commit)}:\n${outcomeText(before.outcome)}`,
    `after, in ${short(after.commit)}:\n${outcomeText(after.outcome)}`,
    files.length === 0 ? '' : `files that differ:\n${listOf(files)}`,
    found.several ? 'The packet met other fates in between, too: this is one of several changes.\n' : '',
    skipped.length === 0
      ? ''
      : `skipped ${plural(skipped.length, 'commit')}:\n${listOf(skipped.map(({ commit, why }) => `${commit.slice(0, 12)}: ${why}`))}`,
    found.ran ? ranText(found.ran) : '',
    `\n${plural(found.steps, 'step')} for ${found.commits} commits that change the bundle\n`,
    nextText(found),
  ].join('');
}

const listOf = (lines: readonly string[]): string => indentedList(lines, shownMax);

const verdicts = {
  accept: 'accepted unchanged',
  pass: 'no Service matches; it continues to its original destination',
  reject: 'REJECT',
  drop: 'DROP',
} as const;

function outcomeText({ ends }: PacketOutcome): string {
  if (ends.length === 0) return '    there is no such Service\n';
  return listOf(ends.map(endText));
}

const endText = ({ verdict, to, masquerade, share }: PacketEnd): string =>
  `${percentText(share)} ${verdict === 'dnat' ? `to ${to}` : verdicts[verdict]}${masquerade ? ', masqueraded' : ''}`;

function nextText({ before, after, dir, between, mergeBase }: Bisection): string {
  const [a, b] = [short(before.commit), short(after.commit)];
  const compare = `next: sluice diff ${a}:${dir} ${b}:${dir}\n`;
  if (mergeBase === undefined || between.length > 0) return compare;
  const branch = after.commit.parents[1]!.slice(0, 12);
  return `${compare}It is a merge. For the commit on its branch: the same command with --from ${mergeBase.slice(0, 12)} --to ${branch}\n`;
}

/** `3f2a9c1b7d04 (2026-11-24 08:00:00 UTC, Ada): remove the endpoints` */
const commitText = (commit: Commit): string =>
  `${short(commit)} (${timeText(commit.seconds)}, ${commit.author}): ${commit.summary}`;

const short = ({ id }: Commit): string => id.slice(0, 12);

const commitOf = ({ id, seconds, author, summary, parents }: Commit): object => ({
  id,
  time: instantText(seconds),
  author,
  summary,
  parents,
});

function ranText({ node, version, since, until, atThatTime }: NodeRan): string {
  const report = ({ at, number, outcome }: Report): string => `${at} (receipt ${number}, ${outcome})`;
  if (since) {
    const end = until
      ? `; at ${report(until)} it ran version ${until.version ?? 'none'}`
      : ' and ran them in its newest receipt';
    return `${node} ran these rules, version ${version}: first in its receipt of ${report(since)}${end}\n`;
  }
  const was = atThatTime
    ? `at that time it ran version ${atThatTime.version ?? 'none'}, by its receipt of ${report(atThatTime)}`
    : 'there is no receipt of that time';
  return `no receipt says that ${node} ran these rules, version ${version}: ${was}\n`;
}
