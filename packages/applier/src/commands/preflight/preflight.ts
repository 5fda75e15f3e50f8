import { document, version } from '@sluice/cli';
import type { SluicedConfig } from '../../config.ts';
import type { Arrival } from '../../inbox/inbox.ts';
import { bad, good, note, type PreflightFinding } from '../../diagnose/preflight/finding.ts';
import { findings } from '../../diagnose/preflight/preflight.ts';
import { hasKey } from '../../observe/receipts/key.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { lookAt, liveInboxOf } from '../session/gate.ts';
import { type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface PreflightOptions extends CommonOptions {
  readonly verbose?: boolean;
  readonly output?: string;
}

/**
 * `sluiced preflight [DIR]`: checks what `sluiced apply` would check of DIR, or of the config's bundle directory, including signatures and
 * serial; accepts nothing. Prints problems first, one line each with the action to take; passed checks are counted, and listed with
 * `--verbose`. Exit code 3 when the node cannot run the bundle.
 */
export async function preflight(
  directory: string | undefined,
  options: PreflightOptions,
  terminal: Terminal,
): Promise<number> {
  const loaded = loadConfig(options);
  const config = directory === undefined ? loaded : { ...loaded, bundle: directory };
  const arrival = await lookAt(config, directory !== undefined);
  const files = arrival.kind === 'bundle' ? arrival.tree.files : undefined;
  const problems = arrival.kind === 'refused' ? arrival.problems : [];
  const all = [
    ...(await findings(config, files, problems)),
    ...releaseFindings(arrival),
    ...liveFindings(await liveInboxOf(config)?.look()),
    receiptFinding(config),
  ];
  const ready = all.every(({ level }) => level !== 'bad');
  if (options.output === 'json')
    terminal.out(document('Preflight', { node: config.node, ready, findings: worstFirst(all) }));
  else for (const line of printFindings(all, options.verbose === true)) terminal.out(`${line}\n`);
  return ready ? exitCodes.done : exitCodes.refused;
}

/** The release of a bundle; problems with it are findings of the bundle. */
export function releaseFindings(arrival: Arrival): readonly PreflightFinding[] {
  if (arrival.kind !== 'bundle' || arrival.release === undefined) return [];
  const { serial, signers } = arrival.release;
  const alarms = (arrival.alarms ?? []).map(({ message, hint }) => note('release', message, hint));
  return [good('release', `serial ${serial}, signed by ${signers.join(', ')}, read by sluiced ${version}`), ...alarms];
}

/** The directory of live endpoints, where the config has one: its writer may still start. */
export function liveFindings(arrival: Arrival | undefined): readonly PreflightFinding[] {
  if (!arrival) return [];
  if (arrival.kind === 'bundle') return [good('endpoints.live', 'it can be read')];
  const [problem] = arrival.kind === 'refused' ? arrival.problems : [];
  if (problem?.code === 'BUNDLE_UNTRUSTED') return [bad('endpoints.live', problem.message, problem.hint ?? '')];
  const why = problem?.message ?? 'the directory does not exist yet';
  return [note('endpoints.live', why, 'start `sluice watch --release` on this node, which writes it')];
}

/** Whether this node can sign receipts. */
export function receiptFinding({ state }: Pick<SluicedConfig, 'state'>): PreflightFinding {
  if (hasKey(state)) return good('receipts', 'this node has a key');
  const todo =
    'run `sluiced keygen`: without a receipt key the node cannot report results, so rollouts stop at its wave';
  return note('receipts', 'this node has no key', todo);
}

const levels = ['bad', 'note', 'good'] as const;
const worstFirst = (all: readonly PreflightFinding[]): readonly PreflightFinding[] =>
  levels.flatMap((wanted) => all.filter(({ level }) => level === wanted));

/** Lines for the terminal: each cause once; passed checks only counted, unless `verbose`. */
export function printFindings(all: readonly PreflightFinding[], verbose: boolean): readonly string[] {
  const lines = worstFirst(all).flatMap((one) => (one.level === 'good' && !verbose ? [] : [printFinding(one)]));
  const passed = all.filter(({ level }) => level === 'good').length;
  const rest = verbose || passed === 0 ? [] : [`${marks.good}  ${passed} more: nothing to do (--verbose lists them)`];
  return [...new Set([...lines, ...rest])];
}

const marks = { good: 'ok  ', note: 'note', bad: 'FAIL' } as const;

export function printFinding({ level, what, todo }: PreflightFinding): string {
  return `${marks[level]}  ${what}: ${todo}`;
}
