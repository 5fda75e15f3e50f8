import { createReadStream } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { decode } from './decode.ts';
import { loadLimits } from './parse/limits.ts';
import { reasonOf } from '@sluice/cli';

/** One file of the input with its text. */
export interface SourceFile {
  /** The path as the user wrote it, used in problems; `stdin` for `-`. */
  readonly file: string;
  readonly text: string;
}

export interface ReadSources {
  /** By path in byte order. */
  readonly sources: readonly SourceFile[];
  readonly problems: readonly Problem[];
}

interface SourceOptions {
  /** `-R`: read subdirectories as well. */
  readonly recursive: boolean;
  /** The input for `-`. */
  readonly stdin: AsyncIterable<Uint8Array>;
}

/**
 * Reads the arguments of `-f` like kubectl: a file whatever its name, the `.yaml`, `.yml` and `.json` files of a directory,
 * or stdin for `-`. Symbolic links to files are followed; those to directories below a directory are not, which avoids loops.
 * A file that is found twice (as in a mounted ConfigMap) is read once, under the first of its names in byte order.
 */
export async function readSources(inputs: readonly string[], options: SourceOptions): Promise<ReadSources> {
  const reader = new SourceReader(options);
  for (const input of new Set(inputs)) await reader.find(input);
  return reader.read();
}

const manifestName = /\.(?:ya?ml|json)$/;

class SourceReader {
  private readonly files: string[] = [];
  private readonly sources: SourceFile[] = [];
  private readonly problems: Problem[] = [];
  private readonly options: SourceOptions;

  constructor(options: SourceOptions) {
    this.options = options;
  }

  /** Collects the files of one `-f`. */
  async find(input: string): Promise<void> {
    if (input === '-') return this.add('stdin', this.options.stdin);
    const found = await this.attempt(input, () => stat(input));
    if (found?.isDirectory()) await this.findIn(input);
    else if (found !== undefined) this.files.push(input);
  }

  /** Reads the collected files. */
  async read(): Promise<ReadSources> {
    const seen = new Set<string>();
    for (const file of this.files.toSorted(compareText)) {
      // A pipe such as /dev/fd/63 has no real path and no second name.
      const real = await realpath(file).catch(() => file);
      if (!seen.has(real)) await this.add(file, createReadStream(file, { highWaterMark: chunkBytes }));
      seen.add(real);
    }
    return { sources: this.sources.toSorted((a, b) => compareText(a.file, b.file)), problems: this.problems };
  }

  private async findIn(directory: string): Promise<void> {
    const entries = (await this.attempt(directory, () => readdir(directory, { withFileTypes: true }))) ?? [];
    for (const entry of entries) {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) {
        if (this.options.recursive) await this.findIn(path);
      } else if (manifestName.test(entry.name)) {
        const target = await this.attempt(path, () => stat(path));
        // Reading a named pipe would block until a writer opens it.
        if (target?.isFile()) this.files.push(path);
      }
    }
  }

  private async add(file: string, stream: AsyncIterable<Uint8Array>): Promise<void> {
    const bytes = await this.attempt(file, () => readBounded(stream));
    if (bytes === undefined) return;
    const decoded = bytes === 'too large' ? tooLarge(file) : decode(file, bytes);
    if ('text' in decoded) this.sources.push({ file, text: decoded.text });
    else this.problems.push(decoded);
  }

  /** Runs a system call; after an error adds a problem and returns undefined. */
  private async attempt<T>(path: string, call: () => Promise<T>): Promise<T | undefined> {
    try {
      return await call();
    } catch (error) {
      this.problems.push(unreadable(path, error));
      return undefined;
    }
  }
}

const chunkBytes = 1024 * 1024;

/** Reads a stream up to the limit, so that an endless device or pipe costs no more than a large file. */
async function readBounded(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array | 'too large'> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > loadLimits.fileBytesMax) return 'too large';
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const tooLarge = (file: string): Problem =>
  refusal(
    'INPUT_TOO_LARGE',
    `Cannot read ${file}: it is larger than ${loadLimits.fileBytesMax} bytes`,
    'Split the file; one of this size holds about 100,000 objects',
  );

const unreadable = (path: string, error: unknown): Problem =>
  refusal('INPUT_UNREADABLE', `Cannot read ${path}: ${reasonOf(error)}`, 'Check the path and its permissions');
