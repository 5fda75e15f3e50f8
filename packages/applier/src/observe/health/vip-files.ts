import { chmodSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '../../limits.ts';

/** What the files are made of. */
interface VipFilesOptions {
  readonly directory: string;
  /** Each as it is asked for: `203.0.113.9:80`. */
  readonly frontends: readonly string[];
  readonly codeOf: (frontend: string) => string;
  /** Seconds since the machine's start, as /proc/uptime has them. */
  readonly uptime: () => number;
  /** The number of this process, and its namespace: `4711 pid:[4026531836]`. */
  readonly process: string;
  /** The files could not be written; undefined: they were. */
  readonly failed: (error: unknown) => void;
}

/**
 * The answers about some frontends as files, for scripts: a file is named as its frontend, and has one line: the hundredths of seconds
 * since the machine's start until which it holds, the code, and the process of the daemon with its namespace of processes. The answer of
 * a daemon that hangs is too old within two seconds; that of a dead one ends at once, for scripts in that namespace.
 */
export class VipFiles {
  readonly #parts: VipFilesOptions;
  #timer: NodeJS.Timeout | undefined;
  #hasFailed = false;

  constructor(parts: VipFilesOptions) {
    this.#parts = parts;
  }

  /** Writes them from now on. */
  open(): void {
    if (this.#parts.frontends.length === 0) return;
    this.#timer = setInterval(() => this.write(), limits.vip.fileMs);
    this.write();
  }

  /** Writes them once. A failure is told once. */
  write(): void {
    const { directory, frontends, codeOf, uptime, process, failed } = this.#parts;
    try {
      mkdirSync(directory, { recursive: true });
      // Of the umask of the unit they would be root's alone.
      chmodSync(directory, 0o755);
      for (const frontend of frontends) {
        const code = codeOf(frontend);
        const until = code === 'SERVED' ? Math.floor(uptime() * 100 + limits.vip.fileHoldsMs / 10) : 0;
        const path = join(directory, frontend);
        writeFileSync(`${path}.new`, `${until} ${code} ${process}\n`);
        chmodSync(`${path}.new`, 0o644);
        renameSync(`${path}.new`, path);
      }
      this.#hasFailed = false;
    } catch (error) {
      if (!this.#hasFailed) failed(error);
      this.#hasFailed = true;
    }
  }

  /** Removes them: the daemon ends. */
  close(): void {
    clearInterval(this.#timer);
    const { directory, frontends } = this.#parts;
    if (this.#timer) for (const frontend of frontends) rmSync(join(directory, frontend), { force: true });
    this.#timer = undefined;
  }
}
