import { closeSync, readFileSync } from 'node:fs';
import { execa } from 'execa';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import { type PipedChild, startOptions, type ToolResult } from '../command.ts';
import { fill, openNameless } from '../whole-text.ts';

/** How the helper is started. */
export interface HelperOptions {
  /** The path of the tool. */
  readonly nft: string;
  /**
   * The path of setpriv, by which the kernel kills the helper when this process ends, also a stopped one: it holds the table and the lock.
   * Without it a stopped helper stays.
   */
  readonly setpriv: string | undefined;
  /** As `runChildren` takes it. */
  readonly lockFd: number | undefined;
}

/** What became of a transaction. */
type Answer =
  | { readonly kind: 'taken' }
  /** The kernel, or nft itself, took nothing of it. */
  | { readonly kind: 'refused'; readonly stderr: string }
  /** The helper ended or did not answer: whether the kernel took it is not known. */
  | { readonly kind: 'lost'; readonly why: string; readonly fault: NonNullable<ToolResult['lost']> };

/** The length of a complaint about a question. */
const complaintCharactersMax = 1_000;

/** What libedit prints once where the system has no descriptions of terminals, as in the image of a node. */
const ofTerminal =
  /^(?:Cannot read termcap database|No entry for terminal type .*);\nusing dumb terminal settings\.\n/m;

/** The helper's fourth file: the text of the next transaction. */
const textFd = 3;

/**
 * A long-lived `nft -i`. It is the process that owns the table (nftables-design.md, section 6), and it takes a transaction in 0.3 ms where
 * a new process takes 5 to 16.
 *
 * A transaction is a file that it includes: the kernel takes all of it or nothing. The file has no name, so no other process can change
 * it. After each transaction the helper is asked something that it cannot parse; its complaint, which names the question, is the end of
 * the answer. So no answer is taken for that to another question.
 *
 * It ends with its input, and so with this process, in any case; the kernel keeps a table with `persist` then.
 */
export class NftHelper {
  readonly #text: number;
  readonly #child: PipedChild;
  #stderr = '';
  #asked = 0;
  #heard = (): void => undefined;
  #ended: string | undefined;

  /** @param onEnd called once when it has ended, also by `end` */
  constructor(parts: HelperOptions, onEnd: () => void) {
    this.#text = openNameless();
    this.#child = start(parts, this.#text);
    this.#child.stderr.setEncoding('utf8').on('data', (part: string) => {
      this.#stderr += part;
      if (this.#stderr.length > limits.nftHelperOutputBytesMax) this.#child.kill('SIGKILL');
      this.#heard();
    });
    // A helper that has ended refuses its input: the answer says so.
    this.#child.stdin.on('error', () => undefined);
    void this.#child.then((result) => {
      this.#ended = result.originalMessage ?? `exit code ${result.exitCode ?? 'unknown'}`;
      closeSync(this.#text);
      this.#heard();
      onEnd();
    });
  }

  /** Undefined if it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Whether it takes transactions. */
  get runs(): boolean {
    return this.#ended === undefined;
  }

  /** Resident memory in bytes; 0 once it has ended. */
  get memoryBytes(): number {
    try {
      return (
        Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.#child.pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
      );
    } catch {
      return 0;
    }
  }

  /**
   * Carries out a text as one transaction. One at a time. A helper that does not answer is killed, and `lost` comes when it has ended: what
   * the kernel has begun for it is done then.
   */
  async write(text: string, timeoutMs: number = timeoutOf(text)): Promise<Answer> {
    if (this.#ended !== undefined) return { kind: 'lost', why: this.#ended, fault: 'killed' };
    try {
      fill(this.#text, text);
    } catch (error) {
      // Nothing of it was read: there is no room for it.
      return { kind: 'lost', why: `Cannot hand it over: ${messageOf(error)}`, fault: 'short' };
    }
    const question = `sluiced-asks-${++this.#asked}`;
    const end = new RegExp(`^Error: .*\\n${question}\\n *\\^+\\n$`, 'm');
    this.#child.stdin.write(`include "/proc/self/fd/${textFd}"\n${question}\n`);
    const late = AbortSignal.timeout(timeoutMs);
    // At the end of what it printed: errors quote whole lines, which may be long.
    while (!end.test(this.#stderr.slice(-complaintCharactersMax))) {
      if (this.#ended !== undefined) return { kind: 'lost', why: this.#ended, fault: 'killed' };
      if (late.aborted) {
        this.#child.kill('SIGKILL');
        await this.#child;
        return { kind: 'lost', why: 'timed out', fault: 'hung' };
      }
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
        late.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    const stderr = this.#stderr.replace(end, '').replace(ofTerminal, '');
    this.#stderr = '';
    return stderr === '' ? { kind: 'taken' } : { kind: 'refused', stderr };
  }

  /** Ends it, and returns when it has ended. */
  async end(): Promise<void> {
    this.#child.stdin.end();
    const kill = setTimeout(() => this.#child.kill('SIGKILL'), limits.commandKillDelayMs);
    await this.#child;
    clearTimeout(kill);
  }
}

/** A large transaction takes longer: 40 MB need 3 s on an idle machine. */
const timeoutOf = (text: string): number =>
  Math.min(limits.nftHelperTimeoutMs + Math.ceil(text.length / limits.nftHelperBytesPerMs), limits.commandTimeoutMs);

const start = ({ nft, setpriv, lockFd }: HelperOptions, text: number): PipedChild => {
  const { stdio, ...options } = startOptions(undefined, 'pipe');
  const [stdin, stdout, stderr] = stdio;
  const command = [...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL']), nft, '-i'];
  return execa(command[0] as string, command.slice(1), {
    ...options,
    buffer: false,
    stdio: [stdin, 'ignore' as typeof stdout, stderr, text as unknown as 'ignore', (lockFd ?? 'ignore') as 'ignore'],
  });
};
