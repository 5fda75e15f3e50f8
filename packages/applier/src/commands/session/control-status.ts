import { CommandError } from '../../command-error.ts';
import { statusOf } from '../../daemon/control/ask.ts';
import type { ControlStatus } from '../../daemon/control/protocol.ts';

/** The status of the running process; undefined where none runs or it hangs: then only disk and kernel are shown. */
export async function controlStatus(state: string): Promise<ControlStatus | undefined> {
  try {
    return await statusOf(state);
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
