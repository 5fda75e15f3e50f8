import type { Reply } from '../netns/agent.ts';
import type { Cluster } from '../netns/cluster.ts';
import { waitFor } from './wait.ts';

/** The number of connections within which every pod has to answer. */
const connectionsMax = 64;
const answerMs = 3_000;

/** One new TCP connection. */
export function ask(cluster: Cluster, from: string, to: string, port: number): Promise<Reply> {
  return cluster.host(from).connect({ protocol: 'tcp', to, port, timeoutMs: answerMs });
}

/**
 * Opens connections until each of `pods` has answered.
 * @returns the addresses that the pods have seen, sorted
 * @throws when a connection fails, or when a pod never answers
 */
export async function meet(
  cluster: Cluster,
  from: string,
  to: string,
  port: number,
  pods: readonly string[],
): Promise<readonly string[]> {
  const missing = new Set(pods);
  const seenAs = new Set<string>();
  for (let left = connectionsMax; left > 0 && missing.size > 0; left--) {
    const reply = await ask(cluster, from, to, port);
    if (reply.kind !== 'answer') throw new Error(`${from} → ${to}:${port}: ${reply.kind}`);
    if (!pods.includes(reply.answer)) throw new Error(`${from} → ${to}:${port}: ${reply.answer} answers`);
    missing.delete(reply.answer);
    seenAs.add(reply.seenAs);
  }
  if (missing.size > 0) throw new Error(`${from} → ${to}:${port}: ${[...missing].join(', ')} never answers`);
  return [...seenAs].toSorted();
}

/** Waits until a connection answers. */
export async function waitForAnswer(
  cluster: Cluster,
  from: string,
  to: string,
  port: number,
  timeoutMs: number,
): Promise<void> {
  await waitFor(`${from} → ${to}:${port} answers`, timeoutMs, async () => {
    const reply = await ask(cluster, from, to, port);
    return reply.kind === 'answer' ? true : undefined;
  });
}
