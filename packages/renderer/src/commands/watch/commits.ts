import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { execa } from 'execa';
import type { Publication, Publisher } from './publisher.ts';

/** So long after the last change what there is is committed. */
const settleMs = 1_000;
const commandTimeoutMs = 60_000;
const pushesMax = 5;
const pushPauseMs = 1_000;
/** So many names stand in the first line of a message; all of them below it. */
const namesMax = 3;
const namesInAllMax = 200;

export interface CommitterListener {
  readonly alarm: (why: string) => void;
  /** What was wrong is not any more. */
  readonly clear: () => void;
  readonly say: (text: string) => void;
}

interface Said {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Makes one Git commit of the directory for each settled change, and pushes it. */
export class Committer {
  readonly #dir: string;
  readonly #isPushing: boolean;
  readonly #publisher: Publisher;
  readonly #listener: CommitterListener;
  readonly #about = new Set<string>();
  /** What commits that are not pushed yet are about. */
  readonly #unpushed = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(dir: string, isPushing: boolean, publisher: Publisher, listener: CommitterListener) {
    this.#dir = dir;
    this.#isPushing = isPushing;
    this.#publisher = publisher;
    this.#listener = listener;
  }

  add({ about, written, removed }: Publication): void {
    if (written.length + removed.length === 0) return;
    for (const thing of about) this.#about.add(thing);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), settleMs);
  }

  /** Commits what is left. */
  async finish(): Promise<void> {
    if (this.#timer !== undefined) this.#start();
    await this.#work;
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#work = this.#work.then(async () => {
      try {
        await this.#commit();
        if (this.#isPushing) await this.#push();
        this.#listener.clear();
      } catch (error) {
        this.#listener.alarm(error instanceof Error ? error.message : String(error));
      }
    });
  }

  async #commit(): Promise<void> {
    const about = [...this.#about];
    // The files must not change between the look at them and the commit.
    this.#publisher.hold();
    try {
      if (!(await this.#record(about))) return;
    } finally {
      this.#publisher.release();
    }
    for (const thing of about) this.#about.delete(thing);
    for (const thing of about) this.#unpushed.add(thing);
    this.#listener.say(`committed: ${messageOf(about).replace(/\n.*/s, '')}\n`);
  }

  /** @returns false when there is nothing to commit */
  async #record(about: readonly string[]): Promise<boolean> {
    await this.#must(['add', '--all', '--', '.']);
    const staged = await this.#git(['diff', '--cached', '--quiet', '--', '.']);
    if (staged.exitCode === 0) return false;
    await this.#must(['commit', '--quiet', '--no-verify', '--message', messageOf(about), '--', '.']);
    return true;
  }

  /** Pushes; over what others pushed meanwhile, this is laid. */
  async #push(): Promise<void> {
    let why = '';
    for (let attempt = 1; attempt <= pushesMax; attempt++) {
      const pushed = await this.#git(['push', '--quiet']);
      if (pushed.exitCode === 0) {
        this.#unpushed.clear();
        return;
      }
      why = pushed.stderr;
      await this.#rebase();
      await new Promise((resolve) => setTimeout(resolve, pushPauseMs * attempt * Math.random()));
    }
    throw new Error(`Cannot push ${this.#dir}: ${why}`);
  }

  async #rebase(): Promise<void> {
    const fetched = await this.#git(['fetch', '--quiet']);
    if (fetched.exitCode !== 0) return;
    this.#publisher.hold();
    try {
      // Here both sides are renders of one cluster: of two texts of a file, the one of this process is the newer.
      const rebased = await this.#git(['rebase', '--quiet', '--strategy-option', 'theirs', '@{upstream}']);
      if (rebased.exitCode === 0) return;
      await this.#git(['rebase', '--abort']);
      await this.#restart();
    } finally {
      this.#publisher.release('changed');
    }
  }

  /**
   * Where commits cannot be laid one by one, such as when one removes a file that somebody changed: one commit of all of them, over
   * what others pushed. The directory is this process's own, so its files are what they are to be.
   */
  async #restart(): Promise<void> {
    const prefix = (await this.#git(['rev-parse', '--show-prefix'])).stdout.trim();
    await this.#must(['reset', '--quiet', '--mixed', '@{upstream}']);
    if (prefix !== '') await this.#git(['checkout', '--quiet', 'HEAD', '--', ':(top)', `:(top,exclude)${prefix}`]);
    await this.#record([...this.#unpushed]);
  }

  async #must(args: readonly string[]): Promise<void> {
    const { exitCode, stderr } = await this.#git(args);
    if (exitCode !== 0) throw new Error(`Cannot commit ${this.#dir}: git ${args[0]}: ${stderr}`);
  }

  async #git(args: readonly string[]): Promise<Said> {
    const { exitCode, stdout, stderr, message } = await execa(gitPath(), ['-C', this.#dir, ...args], {
      env: { GIT_TERMINAL_PROMPT: '0', GIT_EDITOR: 'true', LC_ALL: 'C' },
      stdin: 'ignore',
      reject: false,
      timeout: commandTimeoutMs,
    });
    return { exitCode, stdout, stderr: stderr || (exitCode === 0 ? '' : (message ?? '')) };
  }
}

/** Names the Services: `Service shop/web, Service shop/api and 3 more`, and all of them below. */
export function messageOf(about: readonly string[]): string {
  const sorted = about.toSorted();
  const more = sorted.length - namesMax;
  const shown = sorted.slice(0, namesMax).join(', ');
  const head = sorted.length === 0 ? 'the cluster as it is' : more > 0 ? `${shown} and ${more} more` : shown;
  if (more <= 0) return `watch: ${head}`;
  const listed = sorted.slice(0, namesInAllMax).join('\n');
  return `watch: ${head}\n\n${listed}${sorted.length > namesInAllMax ? '\n…' : ''}`;
}

let found: string | undefined;

/** The absolute path of git, looked up once: a directory that a file appears in later is not asked. */
function gitPath(): string {
  found ??= (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((dir) => dir.startsWith('/'))
    .map((dir) => join(dir, 'git'))
    .find((file) => isExecutable(file));
  if (found === undefined) throw new Error('Cannot commit: git is not installed');
  return realpathSync(found);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
