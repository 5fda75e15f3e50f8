import type { Config } from '../config.ts';
import { type Arrival, Inbox } from '../inbox/inbox.ts';
import { trustOf } from '../inbox/trust.ts';
import { findings, type Finding } from '../preflight.ts';
import { hasKey } from '../receipts/key.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { version } from '../version.ts';
import { gateOf } from './gate.ts';
import { type CommonOptions, loadConfig, type Terminal } from './terminal.ts';

export interface PreflightOptions extends CommonOptions {
  readonly verbose?: boolean;
  readonly output?: string;
}

/**
 * `sluiced preflight [DIR]`: looks at DIR, or at the config's bundle, and says of it what an apply would, signatures and serial
 * included; nothing is accepted by that. What is wrong comes first, one line for each finding with what to do; what is good is counted,
 * and listed with `--verbose`. Exit code 3 when the node cannot run a bundle.
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
  const all = [...(await findings(config, files, problems)), ...releaseFindings(arrival), receiptFinding(config)];
  if (options.output === 'json') terminal.out(`${JSON.stringify(documentOf(config, all), undefined, 2)}\n`);
  else for (const line of printFindings(all, options.verbose === true)) terminal.out(`${line}\n`);
  return all.some(({ level }) => level === 'bad') ? exitCodes.refused : exitCodes.done;
}

/**
 * What a node with this config says of its bundle, without accepting it.
 * @param vouched a person named the directory: who may write there is not asked
 */
export function lookAt(config: Config, vouched: boolean): Promise<Arrival> {
  const trust = vouched ? undefined : trustOf(config.bundleOwner);
  return new Inbox(
    config.bundle,
    Date.now,
    trust,
    gateOf(config, () => false),
  ).look();
}

/** Which release it is; problems with it are findings of the bundle. */
export function releaseFindings(arrival: Arrival): readonly Finding[] {
  if (arrival.kind !== 'bundle' || arrival.release === undefined) return [];
  const { serial, signers } = arrival.release;
  const what = `release (serial ${serial}, signed by ${signers.join(', ')}, read by sluiced ${version})`;
  const alarms = (arrival.alarms ?? []).map(
    ({ message, hint }): Finding => ({ level: 'note', what: `release (${message})`, todo: hint }),
  );
  return [{ level: 'good', what, todo: 'nothing to do' }, ...alarms];
}

/** Whether others will hear how changes end here. */
export function receiptFinding({ state }: Pick<Config, 'state'>): Finding {
  if (hasKey(state)) return { level: 'good', what: 'receipts (this node has a key)', todo: 'nothing to do' };
  const todo = 'run `sluiced keygen`; without one this node is silent, and no wave opens behind it';
  return { level: 'note', what: 'receipts (this node has no key)', todo };
}

/** What `preflight -o json` prints. */
interface PreflightDocument {
  readonly apiVersion: 'sluice.dev/v1alpha1';
  readonly kind: 'Preflight';
  readonly node: string;
  /** Whether the node can run the bundle. */
  readonly ready: boolean;
  readonly findings: readonly Finding[];
}

function documentOf({ node }: Config, all: readonly Finding[]): PreflightDocument {
  const ready = all.every(({ level }) => level !== 'bad');
  return { apiVersion: 'sluice.dev/v1alpha1', kind: 'Preflight', node, ready, findings: worstFirst(all) };
}

const levels = ['bad', 'note', 'good'] as const;
const worstFirst = (all: readonly Finding[]): readonly Finding[] =>
  levels.flatMap((wanted) => all.filter(({ level }) => level === wanted));

/** Lines for people: one cause is told once, and what is good in one line unless all is asked for. */
export function printFindings(all: readonly Finding[], verbose: boolean): readonly string[] {
  const lines = worstFirst(all).flatMap((one) => (one.level === 'good' && !verbose ? [] : [printFinding(one)]));
  const good = all.filter(({ level }) => level === 'good').length;
  const rest = verbose || good === 0 ? [] : [`${marks.good}  ${good} more: nothing to do (--verbose lists them)`];
  return [...new Set([...lines, ...rest])];
}

const marks = { good: 'ok  ', note: 'note', bad: 'FAIL' } as const;

/** One line. */
export function printFinding({ level, what, todo }: Finding): string {
  return `${marks[level]}  ${what}: ${todo}`;
}
