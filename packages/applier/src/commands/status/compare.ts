import { families } from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { messageOf } from '../../message.ts';
import { countNames, foreignSluiceChains } from '../../apply/plan/ownership.ts';
import { openSession } from '../session/session.ts';

/** The kernel compared with the journal. */
export interface KernelView {
  /** Whether it holds the confirmed rules; null where that was not compared. False also where no generation is confirmed, but rules are there. */
  readonly holds: boolean | null;
  /** One line for each step that would make the kernel hold them. */
  readonly differences: readonly string[];
  /** Why it was not compared. */
  readonly because?: string;
}

/** Attempts of a comparison when the daemon changes something meanwhile. */
const attemptsMax = 5;

/**
 * Compares the kernel with the confirmed generation, also beside a running daemon. Changes nothing.
 * @param record the journal's latest record
 */
export async function compareKernel(config: SluicedConfig, record: NodeRecord | undefined): Promise<KernelView> {
  let before = record;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    if (!before || before.current === null) return compareWithNothing(config);
    if (before.held !== null) return notCompared('the node is halted');
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

/** The kernel of a node without a generation: rules that only Sluice writes have lost their state directory. Other layouts have names of kube-proxy. */
async function compareWithNothing(config: SluicedConfig): Promise<KernelView> {
  const because = 'no generation is confirmed yet';
  try {
    using session = await openSession(config, 'look', () => undefined);
    const { kernel } = await session.portsOf(session.backend);
    const chains = countNames(foreignSluiceChains(await kernel.observe(families), {}));
    const left = [
      ...(chains === 0 ? [] : [`${chains} chains of Sluice`]),
      ...((await kernel.nft?.exists()) ? ['table inet sluice'] : []),
    ];
    if (left.length === 0) return notCompared(because);
    const lost = `${config.state} has no generation: was it moved or deleted? \`sluiced recover\` takes the rules over`;
    return { holds: false, differences: left.map((what) => `${what} in the kernel, and ${lost}`), because };
  } catch (error) {
    return notCompared(`${because}; ${messageOf(error)}`);
  }
}

const notCompared = (because: string): KernelView => ({ holds: null, differences: [], because });

/** @returns the differences, or why they are not known */
async function differencesOf(config: SluicedConfig): Promise<readonly string[] | string> {
  try {
    // The journal knows the store, whatever the config has by now.
    using session = await openSession({ ...config, backend: 'auto' }, 'look', () => undefined);
    const { journal, reconciler } = session;
    if (!journal.active) return journal.halted ?? 'the active generation cannot be read';
    return await reconciler.differences();
  } catch (error) {
    return messageOf(error);
  }
}
