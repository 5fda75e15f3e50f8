import { openingFile, type Release, type WavesOpening } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { nodesText } from '../../emit/fleet/words.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { type Evidence, judgeFleet } from '../../fleet/fleet.ts';
import { promote, type Promotion } from '../../fleet/promote.ts';
import { gatherEvidence } from '../evidence/evidence.ts';
import { receiptInput } from '../evidence/found.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { print } from '@sluice/renderer/commands/output/progress.ts';
import { type StagedRelease, stagedRelease, targetOf } from '../evidence/target.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';
import { close, placeOpening, signedOpening } from './opening.ts';

interface PromoteOptions {
  readonly output: Format;
  /** A folder of receipts; not needed for the first wave. */
  readonly receipts?: string;
  /** A store of receipts, instead of a folder. */
  readonly from?: string;
  readonly plainHttp?: boolean;
  readonly allowedReceipts?: string;
  /** In percent. */
  readonly quorum: number;
  /** Go on although nodes were confirmed with failing probes. */
  readonly acceptFailing?: boolean;
  readonly key?: string;
  readonly dryRun?: boolean;
  /** For a pipeline that runs now and then: what is not ready yet is no failure. */
  readonly auto?: boolean;
  /** With `auto`: seconds since the youngest confirmation. */
  readonly after?: number;
  /** Close a wave, and those after it, instead; true: the last open one. */
  readonly close?: string | true;
}

/** What `-o json` says: docs/release.md has the table. */
type Result = (Promotion | Unready)['kind'] | 'opened' | 'may-open' | 'closed' | 'may-close' | 'all-closed';

/**
 * `sluice promote`: opens the next wave of a release once every node of the open waves has reported that it runs the release.
 * Otherwise exits with 1, so that a pipeline tries again; with `--auto` only where an operator must look. With `--close` closes waves.
 */
export async function promoteCommand(dir: string, options: PromoteOptions): Promise<number> {
  const staged = stagedRelease(dir);
  const { waves, opening } = staged;
  if (waves.length === 0) throw new Stopped(noWaves(dir));
  if (staged.onlyEndpoints) throw new Stopped(onlyUpdate(dir, staged.release));
  const { output, close: name, dryRun = false } = options;
  const end = (result: Result, open: number, line?: string, notBefore: string | null = null): void => {
    if (output === 'text' && line !== undefined) print(`${dir}: ${line}\n`);
    printDocument(output, 'Promotion', { dir, result, open, waves: waves.length, notBefore });
  };
  if (name !== undefined) {
    const closed = close(dir, staged, { ...options, name: name === true ? undefined : name });
    if ('none' in closed) end('all-closed', opening.open, closed.none);
    else end(dryRun ? 'may-close' : 'closed', closed.open, `${dryRun ? 'would close' : 'closed'} ${closed.words}`);
    return exitCodes.done;
  }
  const judged = await decide(dir, staged, options);
  const decision = options.auto ? withPatience(judged, opening, options.after) : judged;
  if (decision.kind === 'open') {
    const { wave, open } = decision;
    if (!dryRun) placeOpening(dir, { ...opening, open }, options.key);
    const what = `wave ${open} of ${waves.length} (${wave.name}, ${nodesText(wave.nodes.length)})`;
    end(dryRun ? 'may-open' : 'opened', open, `${what} ${dryRun ? 'may be opened' : 'is open'}`);
    return exitCodes.done;
  }
  reportProblems(decision.problems);
  const isOpen = decision.kind === 'all-open';
  const line = isOpen
    ? `all ${waves.length} waves are open`
    : decision.kind === 'waiting'
      ? 'nothing to open yet'
      : undefined;
  end(decision.kind, isOpen ? waves.length : opening.open, line, 'notBefore' in decision ? decision.notBefore : null);
  const isWell = decision.problems.length === 0 || decision.kind === 'waiting';
  return isWell ? exitCodes.done : exitCodes.different;
}

/**
 * Decides which wave to open. With a key, the decision starts from the waves that a signature covers, because nodes see only these. An
 * opening beyond the signature comes from an interrupted or unsigned promotion, or from a foreign write. It is confirmed wave by wave, as
 * long as all nodes of each wave report the release. The quorum does not apply there: of a wave that was never opened no node can report
 * it, yet the nodes of earlier waves could make up a quorum.
 */
async function decide(dir: string, staged: StagedRelease, options: PromoteOptions): Promise<Promotion> {
  const { opening } = staged;
  const signed = options.key === undefined ? opening.open : signedSoFar(dir, staged);
  const evidence = await evidenceOf(options, signed, Object.keys(staged.release.nodes));
  const { acceptFailing } = options;
  const judge = (count: number, quorum: number): Promotion => {
    const target = targetOf({ ...staged, opening: { ...opening, open: count } });
    return promote(target.waves, count, judgeFleet(evidence, [], target), { quorum, acceptFailing });
  };
  let decision = judge(signed, options.quorum);
  while (decision.kind === 'open' && decision.open < opening.open) {
    const next = judge(decision.open, 100);
    if (next.kind !== 'open') break;
    decision = next;
  }
  return decision;
}

/** The number of open waves that a signature covers; an opening from before a closing opens none. */
function signedSoFar(dir: string, { waves, opening }: StagedRelease): number {
  const signed = signedOpening(dir, opening, waves.length, opening.open);
  return signed?.closings === opening.closings ? (signed?.open ?? 0) : 0;
}

/**
 * @param open the number of open waves
 * @param nodes of the release
 */
async function evidenceOf(
  { allowedReceipts, receipts, ...store }: PromoteOptions,
  open: number,
  nodes: readonly string[],
): Promise<ReadonlyMap<string, Evidence>> {
  const input = receiptInput(receipts, store);
  if (input !== undefined && allowedReceipts !== undefined)
    return (await gatherEvidence(input, allowedReceipts, nodes)).evidence;
  if (open > 0) throw new Stopped(noReceipts);
  return new Map();
}

const noWaves = (dir: string): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot open a wave of ${dir}: this release has no waves, all nodes apply it at once`,
    'Make a release with `sluice release --wave FILE`',
  );

/** An opening would have no effect: nodes apply the update at once, and its release has another digest. */
const onlyUpdate = (dir: string, { serial, revision }: Release): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot open a wave of ${dir}: it contains revision ${revision} of release ${serial}, an endpoint update signed only by endpoint keys, which does not use waves`,
    `Restore release ${serial} with its ${openingFile} and promote that; or sign the update with a release key, too (\`sluice sign DIR --key FILE --as NAME\`), so that it is rolled out in waves`,
  );

const noReceipts = refusal(
  'WAVE_NOT_READY',
  'Cannot open the next wave: no receipts of the nodes in the open waves are given',
  'Pass a folder of receipts with --receipts, or a store of them with --from, and the keys of the nodes with --allowed-receipts',
);

/** Why `--auto` opens nothing now: it is too early, or an operator must look. */
interface Unready {
  readonly kind: 'waiting' | 'blocked';
  readonly problems: readonly Problem[];
  /** When the wave may open, as `2026-12-01T12:15:00Z`. */
  readonly notBefore?: string;
}

/**
 * The decision for `--auto`: nothing is opened before its time, and nothing that was closed. Only the clock makes it differ.
 * @param after seconds since the youngest confirmation
 */
function withPatience(decision: Promotion, { closings }: WavesOpening, after = 0): Promotion | Unready {
  if (decision.kind === 'all-open') return decision;
  if (decision.kind === 'not-ready' && decision.isBlocked) return { kind: 'blocked', problems: decision.problems };
  if (closings !== undefined) return { kind: 'blocked', problems: [wasClosed] };
  if (decision.kind === 'not-ready')
    return { kind: 'waiting', problems: decision.problems.map((problem) => ({ ...problem, level: 'note' })) };
  const { wave, open, youngest } = decision;
  const untilMs = youngest === undefined ? 0 : Date.parse(youngest.at) + after * 1000;
  if (youngest === undefined || untilMs <= Date.now()) return decision;
  const notBefore = `${new Date(untilMs).toISOString().slice(0, 19)}Z`;
  const message = `Cannot open the next wave yet: ${youngest.node} confirmed the release at ${youngest.at}, so wave ${open} (${wave.name}) waits until ${notBefore}`;
  const hint = 'These are times of the clock of that node. Run the same command again, or open the wave without --auto';
  return { kind: 'waiting', problems: [{ code: 'WAVE_NOT_READY', level: 'note', message, hint }], notBefore };
}

const wasClosed: Problem = refusal(
  'WAVE_NOT_READY',
  'Cannot open the next wave: waves of this release were closed by an operator, so --auto opens no more of them',
  'Open it with `sluice promote`, without --auto; or make a new release',
);
