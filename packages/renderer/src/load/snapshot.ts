import type { Place, Problem } from '@sluice/netfilter';
import type { JsonObject } from '../render/model/kube.ts';
import { printable } from './problems.ts';

/** The only snapshot format: objects as in the API server, without irrelevant fields. */
const format = { apiVersion: 'sluice.dev/v1alpha1', number: 1 } as const;

/** Returns a problem for a snapshot header of an unknown format. */
export function otherFormat(header: JsonObject, at: Place): Problem | undefined {
  if (header['apiVersion'] === format.apiVersion && header['format'] === format.number) return undefined;
  const found = `${JSON.stringify(header['apiVersion'] ?? null)}, format ${JSON.stringify(header['format'] ?? null)}`;
  return {
    code: 'API_VERSION_UNKNOWN',
    level: 'error',
    at,
    message: `Cannot read the Snapshot: its format is ${printable(found)}, and this program reads ${format.apiVersion}, format ${format.number}`,
    hint: 'Take the snapshot again with this program, or render with the version of sluice that took it',
  };
}
