import { readFileSync } from 'node:fs';
import { type Problem, refusal } from '@sluice/netfilter';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';

/**
 * The labels of the Nodes in a file.
 * @param file as `kubectl get nodes -o json` prints it
 * @returns node → its labels
 * @throws Stopped where it is no such list
 */
export function labelsOf(file: string): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const labels = readNodeLabels(reading(file, () => readFileSync(file, 'utf8')));
  if (labels === undefined) throw new Stopped(noNodes(file));
  return labels;
}

const noNodes = (file: string): Problem =>
  refusal(
    'INPUT_UNREADABLE',
    `Cannot use ${file}: it is no list of Nodes in JSON`,
    'Write it with `kubectl get nodes -o json`',
  );

/**
 * Reads the labels of Nodes.
 * @param text as `kubectl get nodes -o json` prints it
 * @returns node → its labels; undefined where it is not such a list
 */
export function readNodeLabels(text: string): ReadonlyMap<string, ReadonlyMap<string, string>> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { items } = (value ?? {}) as { readonly items?: unknown };
  if (!Array.isArray(items) || items.length > nodesMax) return undefined;
  const labels = new Map<string, ReadonlyMap<string, string>>();
  for (const item of items as readonly unknown[]) {
    const { kind, metadata } = (item ?? {}) as { readonly kind?: unknown; readonly metadata?: unknown };
    const { name, labels: own = {} } = (metadata ?? {}) as { readonly name?: unknown; readonly labels?: object };
    if (kind !== 'Node' || typeof name !== 'string' || !/^[a-z0-9][-a-z0-9.]{0,252}$/.test(name)) return undefined;
    const texts = Object.entries(own).flatMap(([key, one]) => (typeof one === 'string' ? [[key, one] as const] : []));
    labels.set(name, new Map(texts));
  }
  return labels;
}

/** More than Kubernetes supports (15,000 with etcd; large clusters with other stores have 100,000). */
const nodesMax = 200_000;
