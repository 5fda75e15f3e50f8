import { Inbox } from '../inbox/inbox.ts';
import { trustOf } from '../inbox/trust.ts';
import { findings, type Finding } from '../preflight.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { type CommonOptions, loadConfig, type Terminal } from './terminal.ts';

/** `sluiced preflight [DIR]`: looks at DIR, or at the config's bundle; one line per finding, each with what to do. Exit code 3 when the node cannot run a bundle. */
export async function preflight(
  directory: string | undefined,
  options: CommonOptions,
  terminal: Terminal,
): Promise<number> {
  const loaded = loadConfig(options);
  const config = directory === undefined ? loaded : { ...loaded, bundle: directory };
  const trust = directory === undefined ? trustOf(config.bundleOwner) : undefined;
  const arrival = await new Inbox(config.bundle, config.node, Date.now, trust).look();
  const files = arrival.kind === 'bundle' ? arrival.tree.files : undefined;
  const problems = arrival.kind === 'refused' ? arrival.problems : [];
  const all = await findings(config, files, problems);
  for (const finding of all) terminal.out(`${printFinding(finding)}\n`);
  return all.some(({ level }) => level === 'bad') ? exitCodes.refused : exitCodes.done;
}

const marks = { good: 'ok  ', note: 'note', bad: 'FAIL' } as const;

function printFinding({ level, what, todo }: Finding): string {
  return `${marks[level]}  ${what}: ${todo}`;
}
