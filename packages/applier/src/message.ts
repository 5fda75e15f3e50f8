import { isFileError, reasonOf } from '@sluice/cli';

/** The message of anything that was thrown; for an error of the file system its reason, and the path. */
export function messageOf(error: unknown): string {
  if (isFileError(error) && error.path !== undefined && !error.path.startsWith('/proc/self/fd/'))
    return `${error.path}: ${reasonOf(error)}`;
  if (isFileError(error)) return reasonOf(error);
  return error instanceof Error ? error.message : String(error);
}
