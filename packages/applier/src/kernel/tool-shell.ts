import { closeSync } from 'node:fs';
import { execa } from 'execa';
import { limits } from '../limits.ts';
import {
  type Command,
  type OnExit,
  type PipedChild,
  type Run,
  type Started,
  startOptions,
  type ToolResult,
  whyExit,
} from './command.ts';
import { ChildTime } from './processor-time.ts';
import { fill, openNameless } from './whole-text.ts';

/** How the shell is started. */
interface ToolShellOptions {
  /** The path of sh. */
  readonly sh: string;
  /** The path of setpriv, by which the kernel kills the shell when this process ends, also a stopped one: it holds the lock. */
  readonly setpriv: string | undefined;
  /** As `runChildren` takes it. */
  readonly lockFd: number | undefined;
  /** As `runChildren` takes it, for tools that change tables. */
  readonly started?: Started;
}

/** The descriptor of the file from which tools read their input. */
const textFd = 4;

/**
 * For each line whether a tool's output is wanted (`+`), whether it has input, whether it changes tables, the tool and its arguments: starts
 * it, passes on what it prints, and ends both outputs with the number of the line and the exit code. One that changes tables tells its process
 * id first and waits for an empty line; it does not begin where this process has ended. Nothing in a line is a pattern or an expression:
 * `read -r` keeps backslashes, `set -f` patterns, and what a variable holds is only split at spaces.
 */
const script = `set -f
turn=0
while read -r out in changes line; do
  if [ "$in" = + ]; then text=/proc/self/fd/${textFd}; else text=/dev/null; fi
  (
    if [ "$changes" = + ]; then
      read -r pid rest </proc/self/stat
      echo "$pid"
      read -r go || exit 126
    fi
    if [ "$out" = + ]; then exec $line <$text; else exec $line <$text >/dev/null; fi
  )
  code=$?
  turn=$((turn + 1))
  printf '\\n= %d %d\\n' $turn $code
  printf '\\n= %d %d\\n' $turn $code >&2
done`;

/** What needs no quotes in such a line. */
const wordForm = /^[\w./:@%+,-]+$/;
/** The end of each of the two outputs of a tool. @param turn the number of its line */
const endOf = (turn: number): RegExp => new RegExp(`\\n= ${turn} (\\d+)\\n$`);
/** Exit codes of a shell: 126 and 127 for a tool that it could not start, above 128 for one that a signal killed. */
const [toolExitCodeMax, signalled] = [125, 128] as const;

/**
 * A long-lived shell that starts small tools, one at a time, also the writers of a change. Starting a process copies the tables of this
 * one's memory, and each page that is written next faults: several milliseconds with the rules of 10,000 Services. The shell has 1 MB.
 *
 * It has asked the kernel nothing while it waits, and ends with its input, and so with this process, in any case.
 */
export class ToolShell {
  readonly #parts: ToolShellOptions;
  #shell: RunningShell | undefined;
  #isBusy = false;
  #isEnded = false;

  constructor(parts: ToolShellOptions) {
    this.#parts = parts;
  }

  /**
   * @returns undefined: the tool was not started, as while another one runs: what takes long must not delay what is urgent; also after `end`.
   *   `lost: 'killed'`: it is not known whether it did its work
   */
  async run(command: Command): Promise<ToolResult | undefined> {
    // A shell that starts now would keep this process from ending.
    if (this.#isEnded || this.#isBusy) return undefined;
    this.#isBusy = true;
    try {
      this.#shell = this.#shell?.runs === true ? this.#shell : new RunningShell(this.#parts);
      return await this.#shell.ask(command);
    } catch {
      // No room for its input.
      return undefined;
    } finally {
      this.#isBusy = false;
    }
  }

  /** Ends it, after what it does now. */
  end(): void {
    this.#isEnded = true;
    this.#shell?.end();
  }
}

/**
 * Gives small tools to a shell, where it takes them; all others, those that it could not start, and those that it lost and that may be
 * repeated, to `run`.
 * @param shell undefined: there is none
 */
export const throughShell =
  (run: Run, shell: ToolShell | undefined): Run =>
  async (command) => {
    const ran = shell !== undefined && fits(command) ? await shell.run(command) : undefined;
    const isAgain = ran?.lost === 'killed' && command.isRepeatable === true;
    return ran === undefined || isAgain ? run(command) : ran;
  };

/** Whether a line can name it, and a shell pass on its input and what it prints. */
const fits = ({ file, args, input, isSmall, ...others }: Command): boolean =>
  isSmall === true &&
  (input === undefined || (typeof input === 'string' && input.length <= limits.pipeBytesMax)) &&
  (['onOutput', 'onUsed', 'signal', 'outputBytesMax'] as const).every((key) => others[key] === undefined) &&
  [file, ...args].every((word) => wordForm.test(word));

/** What a shell passed on of a tool. */
interface Printed {
  out: string;
  err: string;
}

class RunningShell {
  readonly #text = openNameless();
  readonly #child: PipedChild;
  readonly #printed: Printed = { out: '', err: '' };
  readonly #started: Started | undefined;
  #turn = 0;
  #hasEnded = false;
  #heard = (): void => undefined;

  constructor(parts: ToolShellOptions) {
    this.#child = start(parts, this.#text);
    this.#started = parts.started;
    for (const [key, stream] of [['out', this.#child.stdout] as const, ['err', this.#child.stderr] as const])
      stream.setEncoding('utf8').on('data', (part: string) => {
        this.#printed[key] += part;
        if (this.#printed[key].length > limits.toolShellOutputCharactersMax) this.#kill();
        this.#heard();
      });
    // A shell that has ended refuses its input: the answer says so.
    this.#child.stdin.on('error', () => undefined);
    // The time of all tools that it ran is not that of the child that ends next.
    this.#child.nodeChildProcess.once('exit', () => void new ChildTime().end());
    void this.#child.then(() => {
      this.#hasEnded = true;
      closeSync(this.#text);
      this.#heard();
    });
  }

  get runs(): boolean {
    return !this.#hasEnded;
  }

  /** @throws the error of the disk, where there is no room for its input */
  async ask(command: Command): Promise<ToolResult | undefined> {
    const { file, args, input, isSilent, changesTables, timeoutMs = limits.commandTimeoutMs } = command;
    if (typeof input === 'string') fill(this.#text, input);
    const printed = Object.assign(this.#printed, { out: '', err: '' });
    const end = endOf(++this.#turn);
    const signs = [isSilent !== true, input !== undefined, changesTables === true].map((is) => (is ? '+' : '-'));
    this.#child.stdin.write(`${[...signs, file, ...args].join(' ')}\n`);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#kill();
    }, timeoutMs);
    const ended = changesTables === true ? await this.#begin(command) : undefined;
    await this.#until(() => end.test(printed.out) && end.test(printed.err));
    clearTimeout(timer);
    if (this.#child.pid === undefined || ended === 'not begun') return undefined;
    const answer: ToolResult | undefined = isLate
      ? { ...lost, why: 'timed out', lost: 'hung' }
      : answerIn(printed, end);
    ended?.(answer?.exitCode);
    return answer;
  }

  /** Tells the process id of a tool that changes tables, and lets it begin. */
  async #begin(command: Command): Promise<OnExit | undefined | 'not begun'> {
    await this.#until(() => this.#printed.out.includes('\n'));
    const [pid = ''] = this.#printed.out.split('\n', 1);
    if (this.#hasEnded || !/^\d+$/.test(pid)) return 'not begun';
    this.#printed.out = this.#printed.out.slice(pid.length + 1);
    const ended = this.#started?.(Number(pid), command);
    this.#child.stdin.write('\n');
    return ended;
  }

  /** Waits for it, or for the end of the shell. */
  async #until(condition: () => boolean): Promise<void> {
    while (!condition() && !this.#hasEnded)
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
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

const lost = { exitCode: undefined, stdout: '', stderr: '' } as const;

/** @returns undefined if the tool could not be started */
function answerIn({ out, err }: Printed, end: RegExp): ToolResult | undefined {
  const [code, both] = [end.exec(err)?.[1], end.test(out)];
  const exitCode = Number(code);
  if (code === undefined || !both || exitCode > signalled)
    return { ...lost, why: 'the tool, or the shell that started it, was killed', lost: 'killed' };
  if (exitCode > toolExitCodeMax) return undefined;
  const [stdout, stderr] = [out.replace(end, ''), err.replace(end, '')];
  return { exitCode, stdout, stderr, why: exitCode === 0 ? '' : whyExit(exitCode, stderr) };
}

/** @param text the file with the input of its tools */
const start = ({ sh, setpriv, lockFd }: ToolShellOptions, text: number): PipedChild => {
  const { stdio, ...options } = startOptions(lockFd, 'pipe');
  const command = [...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL']), sh, '-c', script];
  return execa(command[0] as string, command.slice(1), {
    ...options,
    buffer: false,
    detached: true,
    stdio: [...stdio, text as unknown as 'ignore'],
  });
};
