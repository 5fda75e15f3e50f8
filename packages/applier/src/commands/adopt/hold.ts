import { isDeepStrictEqual } from 'node:util';
import { CommandError } from '../../command-error.ts';
import { messageOf } from '../../message.ts';
import type { Adoption, Hold, KubeProxy } from '../../ports/adoption.ts';
import { exitCodes } from '../../ports/outcome.ts';

/**
 * Checks that kube-proxy can be stopped in this way, before anything is touched. A move that has begun in another way is not continued: the
 * journal has one hold, and what it forgot could not be given back.
 * @param begun the move that was interrupted
 * @throws CommandError
 */
export async function mustBeHoldable(
  hold: Hold,
  begun: Adoption | undefined,
  kubeProxy: Pick<KubeProxy, 'refuses'>,
): Promise<void> {
  if (begun && begun.hold.kind !== 'operator' && !isDeepStrictEqual(begun.hold, hold))
    throw cannot(
      `Cannot continue the move of this node: it began with ${optionOf(begun.hold)}`,
      'Run the command with that option again, or `sluiced adopt --undo` first',
    );
  const why = await kubeProxy.refuses(hold);
  if (why === undefined) return;
  throw cannot(
    `Cannot move this node from kube-proxy: ${why}`,
    'Nothing was touched. Pass what runs kube-proxy here; /usr/share/doc/sluice/adopt.md says which',
  );
}

function optionOf(hold: Hold): string {
  if (hold.kind === 'unit') return `--unit ${hold.unit}`;
  return hold.kind === 'manifest' ? `--manifest ${hold.manifest}` : '--daemonset';
}

/** A kube-proxy whose failures say who serves, and what to do. */
export const explained = (kubeProxy: KubeProxy): KubeProxy => ({
  ...kubeProxy,
  hold: (hold) => explain(kubeProxy.hold(hold), 'Cannot stop kube-proxy', 'or `sluiced adopt --undo`'),
  release: (hold) => explain(kubeProxy.release(hold), 'Cannot let kube-proxy return', 'to finish the undo'),
});

async function explain<T>(done: Promise<T>, what: string, orElse: string): Promise<T> {
  try {
    return await done;
  } catch (error) {
    const hint = `Sluice serves. Mend what it says, then run the same command again, ${orElse}`;
    throw cannot(`${what}: ${messageOf(error)}`, hint, exitCodes.different);
  }
}

const cannot = (message: string, hint: string, exitCode: number = exitCodes.refused): CommandError =>
  new CommandError([{ code: 'NODE_CANNOT_ADOPT', level: 'error', message, hint }], exitCode);
