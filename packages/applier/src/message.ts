import { isFileError, reasonOf } from '@sluice/cli';

/** The message of anything that was thrown; for an error of the file system its reason, and the path. */
export function messageOf(error: unknown): string {
  if (isFileError(error) && error.path !== undefined && !error.path.startsWith('/proc/self/fd/'))
    return `${error.path}: ${reasonOf(error)}`;
  if (isFileError(error)) return reasonOf(error);
  return error instanceof Error ? error.message : String(error);
}

/** Calls back for each line of a text that comes in parts, each of which may end anywhere. */
export class LineSplitter {
  readonly #read: (line: string) => void;
  #rest = '';

  constructor(read: (line: string) => void) {
    this.#read = read;
  }

  take(part: string): void {
    const lines = `${this.#rest}${part}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#read(line);
  }

  end(): void {
    if (this.#rest !== '') this.#read(this.#rest);
  }
}
