import type { Config } from '../config.ts';
import { peek } from '../journal/peek.ts';
import type { NodeRecord } from '../journal/record.ts';
import { messageOf } from '../rollout/message.ts';
import { openSession } from './session.ts';

/** What the kernel holds beside what the journal says. */
export interface KernelView {
  /** Whether it holds the confirmed rules; null where that was not compared. */
  readonly holds: boolean | null;
  /** What it lacks or has too much, a line for each step that would put it right. */
  readonly differences: readonly string[];
  /** Why it was not compared. */
  readonly because?: string;
}

/** So often a comparison is made again because the daemon changed something meanwhile. */
const attemptsMax = 5;

/**
 * Compares the kernel with the confirmed generation, beside a daemon that may be at work, and changes nothing.
 * @param record what the journal said a moment ago
 */
export async function compareKernel(config: Config, record: NodeRecord | undefined): Promise<KernelView> {
  let before = record;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    if (!before || before.current === null) return notCompared('nothing was confirmed yet');
    if (before.held !== null) return notCompared('the node is held');
    if (before.open === null) {
      const differences = await differencesOf(config);
      if (typeof differences === 'string') return notCompared(differences);
      const after = peek(config.state);
      const isSame = after?.open === null && after.current?.manifest === before.current.manifest;
      if (isSame) return { holds: differences.length === 0, differences };
    }
    before = peek(config.state);
  }
  return notCompared('a change is in progress');
}

const notCompared = (because: string): KernelView => ({ holds: null, differences: [], because });

/** @returns the differences, or why they are not known */
async function differencesOf(config: Config): Promise<readonly string[] | string> {
  try {
    // Whatever the config says by now: the rules are where the journal says.
    const session = await openSession({ ...config, backend: 'auto' }, 'look', () => undefined);
    try {
      const { journal, reconciler } = session;
      if (!journal.active) return journal.halted ?? 'what stands cannot be read';
      return await reconciler.differences();
    } finally {
      session.close();
    }
  } catch (error) {
    return messageOf(error);
  }
}
