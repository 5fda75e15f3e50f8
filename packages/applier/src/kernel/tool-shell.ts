import { execa } from 'execa';
import { limits } from '../limits.ts';
import { type Command, type Run, startOptions, type ToolResult, whyExit } from './command.ts';
import { ChildTime } from './processor-time.ts';

/** How the shell is started. */
interface ToolShellOptions {
  /** The path of sh. */
  readonly sh: string;
  /** The path of setpriv, by which the kernel kills the shell when this process ends, also a stopped one: it holds the lock. */
  readonly setpriv: string | undefined;
  /** As `runChildren` takes it. */
  readonly lockFd: number | undefined;
}

/**
 * For each line a tool and its arguments: starts it, and prints its standard error, and a line with its exit code. Nothing in a line is a
 * pattern or an expression: `read -r` keeps backslashes, `set -f` patterns, and what a variable holds is only split at spaces.
 */
const script = 'set -f; while read -r line; do $line 2>&1 >/dev/null </dev/null; printf "\\n= %d\\n" "$?"; done';

/** What needs no quotes in such a line. */
const wordForm = /^[\w./:@%+,-]+$/;
/** The end of an answer. */
const endForm = /\n= (\d+)\n$/;
/** Exit codes of a shell: 126 and 127 for a tool that it could not start, above 128 for one that a signal killed. */
const toolExitCodeMax = 125;

/**
 * A long-lived shell that starts small tools, one after the other. Starting a process copies the tables of this one's memory, and each page
 * that is written next faults: several milliseconds with the rules of 10,000 Services. The shell has 1 MB.
 *
 * It has asked the kernel nothing while it waits, and ends with its input, and so with this process, in any case.
 */
export class ToolShell {
  readonly #parts: ToolShellOptions;
  #shell: RunningShell | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #isEnded = false;

  constructor(parts: ToolShellOptions) {
    this.#parts = parts;
  }

  /**
   * Runs a tool after those before it.
   * @returns undefined: the shell did not run, or ended meanwhile, so that it is not known whether the tool did its work; also after `end`
   */
  run(command: Command): Promise<ToolResult | undefined> {
    const ran = this.#turn.then(() => this.#ask(command));
    this.#turn = ran.catch(() => undefined);
    return ran;
  }

  async #ask({ file, args, timeoutMs = limits.commandTimeoutMs }: Command): Promise<ToolResult | undefined> {
    // A shell that starts now would keep this process from ending.
    if (this.#isEnded) return undefined;
    this.#shell = this.#shell?.runs === true ? this.#shell : new RunningShell(this.#parts);
    return this.#shell.ask([file, ...args].join(' '), timeoutMs);
  }

  /** Ends it, after what it does now. */
  end(): void {
    this.#isEnded = true;
    this.#shell?.end();
  }
}

/**
 * Gives tools that may be repeated to a shell, where it takes them; all others, and those that it lost, to `run`.
 * @param shell undefined: there is none
 */
export const throughShell =
  (run: Run, shell: ToolShell | undefined): Run =>
  async (command) =>
    (shell !== undefined && fits(command) ? await shell.run(command) : undefined) ?? run(command);

/** Whether a line can name it, and only its exit code and its standard error are of use. */
const fits = ({ file, args, isRepeatable, isSilent, ...others }: Command): boolean =>
  isRepeatable === true &&
  isSilent === true &&
  (['input', 'onOutput', 'onUsed', 'signal', 'outputBytesMax'] as const).every((key) => others[key] === undefined) &&
  [file, ...args].every((word) => wordForm.test(word));

class RunningShell {
  readonly #child: ReturnType<typeof start>;
  #printed = '';
  #hasEnded = false;
  #heard = (): void => undefined;

  constructor(parts: ToolShellOptions) {
    this.#child = start(parts);
    this.#child.stdout.setEncoding('utf8').on('data', (part: string) => {
      this.#printed += part;
      if (this.#printed.length > limits.toolShellOutputCharactersMax) this.#kill();
      this.#heard();
    });
    // A shell that has ended refuses its input: the answer says so.
    this.#child.stdin.on('error', () => undefined);
    // The time of all tools that it ran is not that of the child that ends next.
    this.#child.nodeChildProcess.once('exit', () => void new ChildTime().end());
    void this.#child.then(() => {
      this.#hasEnded = true;
      this.#heard();
    });
  }

  get runs(): boolean {
    return !this.#hasEnded;
  }

  async ask(line: string, timeoutMs: number): Promise<ToolResult | undefined> {
    this.#printed = '';
    this.#child.stdin.write(`${line}\n`);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#kill();
    }, timeoutMs);
    while (!endForm.test(this.#printed) && !this.#hasEnded)
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    clearTimeout(timer);
    return isLate
      ? { exitCode: undefined, stdout: '', stderr: '', why: 'timed out', lost: 'hung' }
      : answerIn(this.#printed);
  }

  end(): void {
    this.#child.stdin.end();
  }

  /** With the tool that it runs, which is in its process group. */
  #kill(): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** @returns undefined if the tool did not end by itself: it, or the shell, could not be started, or was killed */
function answerIn(printed: string): ToolResult | undefined {
  const [end, code] = endForm.exec(printed) ?? [];
  const exitCode = Number(code);
  if (end === undefined || exitCode > toolExitCodeMax) return undefined;
  const stderr = printed.slice(0, -end.length);
  return { exitCode, stdout: '', stderr, why: exitCode === 0 ? '' : whyExit(exitCode, stderr) };
}

const start = ({ sh, setpriv, lockFd }: ToolShellOptions) => {
  const { stdio, ...options } = startOptions(lockFd, 'pipe');
  const [stdin, stdout, , lock] = stdio;
  const command = [...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL']), sh, '-c', script];
  return execa(command[0] as string, command.slice(1), {
    ...options,
    buffer: false,
    detached: true,
    stdio: [stdin, stdout, 'ignore' as typeof stdout, lock],
  });
};
