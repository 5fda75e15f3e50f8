import type { Generation, Ports } from '../rollout/ports.ts';
import { restore } from '../rollout/restore.ts';
import { ownedNames, switchOff, wayBack } from './back.ts';

/**
 * Makes the kernel hold the confirmed generation and writes nothing: for a disk that takes nothing, such as one that became read-only
 * after an error. What a crash left open is taken out of the kernel; the next process that can write finishes it in the journal.
 * @returns what is in place; undefined when nothing was confirmed yet, or the node is held for a person
 */
export async function loadFrozen(ports: Ports): Promise<Generation | undefined> {
  const { journal } = ports;
  const { standing } = journal;
  if (!standing || journal.held !== undefined) return undefined;
  await load(standing, ports);
  return standing;
}

/**
 * The same for a node that is held: the rules that stood are better than none. It stays held.
 * @throws what the kernel says against it
 */
export async function loadHeld(ports: Ports): Promise<Generation | undefined> {
  const { standing } = ports.journal;
  if (standing) await load(standing, ports);
  return standing;
}

async function load(standing: Generation, ports: Ports): Promise<void> {
  await switchOff(ports);
  await restore(wayBack(standing.state, ports), await ownedNames(standing, ports), ports);
  await ports.kernel.switch?.remove();
}
