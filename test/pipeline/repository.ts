import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { printObservation } from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { observe, savedFiles } from '../../packages/review/src/parity/observed.fixture.ts';

const root = join(import.meta.dirname, '..', '..');
const example = join(root, 'examples', 'gitops');
export const sluice = programPath('sluice');

export const reviewPage = (): string => readFileSync(join(root, 'docs', 'review.md'), 'utf8');

/** The file of a node that holds what the repository has rendered. */
export function observedNode(repository: Repository, node: string): string {
  const dir = join(repository.dir, 'rendered');
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(dir, path)).isFile(),
  );
  const files = new Map(paths.map((path) => [path, readFileSync(join(dir, path), 'utf8')]));
  return [...printObservation(observe(node, savedFiles(files, node)))].join('');
}

/** The result of a review, and its files. */
export interface Review {
  readonly exit: number;
  /** Its messages. */
  readonly output: string;
  /** A file that it wrote; empty if it did not. */
  file(name: string): string;
}

/** A clone of the example with a remote, in a directory of its own, like that of a colleague or a pipeline. */
export class Repository {
  readonly dir: string;
  private readonly home: string;

  private constructor(home: string) {
    this.home = home;
    this.dir = join(home, 'work');
  }

  /** The example as it is on the remote's main branch. */
  static async create(): Promise<Repository> {
    const made = new Repository(mkdtempSync(join(tmpdir(), 'sluice-gitops-')));
    const remote = join(made.home, 'remote.git');
    await execa('git', ['init', '-q', '--bare', '-b', 'main', remote]);
    cpSync(example, made.dir, { recursive: true });
    await made.git('init', '-q', '-b', 'main');
    await made.git('remote', 'add', 'origin', remote);
    await made.commit('shop: as it is');
    await made.git('push', '-q', 'origin', 'main');
    return made;
  }

  remove(): void {
    rmSync(this.home, { recursive: true });
  }

  async git(...args: readonly string[]): Promise<string> {
    const who = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'];
    const { stdout } = await execa('git', [...who, ...args], { cwd: this.dir, env: { HOME: this.home } });
    return stdout;
  }

  async commit(message: string): Promise<void> {
    await this.git('add', '-A');
    await this.git('commit', '-qm', message);
  }

  /** A branch with the example's pull request. */
  async change(): Promise<void> {
    await this.git('switch', '-qc', 'change');
    cpSync(join(this.dir, 'pull-request', 'manifests'), join(this.dir, 'manifests'), { recursive: true });
  }

  async render(): Promise<void> {
    await execa(sluice, ['render', '-f', 'manifests', '-R', '-c', 'sluice.yaml', '-o', 'rendered'], { cwd: this.dir });
  }

  /** Any other command of sluice, in the repository. */
  async sluice(...args: readonly string[]): Promise<{ readonly exit: number | undefined; readonly stdout: string }> {
    const ran = await execa(sluice, args, { cwd: this.dir, reject: false, stripFinalNewline: false });
    return { exit: ran.exitCode, stdout: ran.stdout };
  }

  edit(path: string, edit: (text: string) => string): void {
    const file = join(this.dir, path);
    writeFileSync(file, edit(readFileSync(file, 'utf8')));
  }

  write(path: string, text: string): void {
    const file = join(this.dir, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** The script of the pipeline. */
  async review(env: Readonly<Record<string, string>> = {}): Promise<Review> {
    const out = join(this.home, 'review');
    rmSync(out, { recursive: true, force: true });
    const variables = {
      SLUICE: sluice,
      SLUICE_BASE: 'origin/main',
      SLUICE_TODAY: '2026-11-21',
      SLUICE_OUT: out,
      ...env,
    };
    const { exitCode, stderr } = await execa(join(root, 'integrations', 'review.sh'), [], {
      cwd: this.dir,
      env: variables,
      reject: false,
    });
    const file = (name: string): string => (existsSync(join(out, name)) ? readFileSync(join(out, name), 'utf8') : '');
    return { exit: exitCode ?? -1, output: stderr, file };
  }
}
