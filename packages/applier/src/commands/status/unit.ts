import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';

const unit = 'sluiced.service';

/**
 * Whether systemd starts the daemon at boot: then one that does not answer is missing. `systemctl` reads that from files.
 * @returns false without systemd, and where it is not known
 */
export async function isUnitEnabled(run: Run): Promise<boolean> {
  const file = findTool('systemctl');
  if (file === undefined) return false;
  const { exitCode, stdout } = await run({ file, args: ['is-enabled', '--', unit] });
  return exitCode === 0 && /^(enabled|enabled-runtime|linked)$/m.test(stdout);
}
