import { withExcerpt } from './excerpt.ts';
import type { RunGroup } from './run-group.ts';
import type { ProbeAnswer } from './answer.ts';

/** Healthy: exit code 0. Otherwise the reason, and the output of the command. */
export async function tryCommand(
  [file, ...args]: readonly string[],
  timeoutMs: number,
  run: RunGroup,
): Promise<ProbeAnswer> {
  const ran = await run(file ?? '', args, timeoutMs);
  if (ran.exitCode === 0) return { healthy: true, seen: 'exit code 0' };
  const reason = ran.exitCode === undefined ? ran.why : `exit code ${ran.exitCode}`;
  return { healthy: false, seen: withExcerpt(reason, `${ran.stdout}\n${ran.stderr}`) };
}
