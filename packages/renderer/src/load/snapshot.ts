import type { Place, Problem } from '@sluice/bundle';
import type { JsonObject } from '../render/kube.ts';
import { printable } from './problems.ts';

/** The only format there is: objects as the API server has them, without what decides nothing. */
const format = { apiVersion: 'sluice.dev/v1alpha1', number: 1 } as const;

/** A problem when the header of a snapshot is of a format that this program does not know. */
export function otherFormat(header: JsonObject, at: Place): Problem | undefined {
  if (header['apiVersion'] === format.apiVersion && header['format'] === format.number) return undefined;
  const found = `${JSON.stringify(header['apiVersion'] ?? null)}, format ${JSON.stringify(header['format'] ?? null)}`;
  return {
    code: 'API_VERSION_UNKNOWN',
    level: 'error',
    at,
    message: `Cannot read the Snapshot: it is of ${printable(found)}, and this program reads ${format.apiVersion}, format ${format.number}`,
    hint: 'Take the snapshot again with this program, or render with the version that took it',
  };
}
