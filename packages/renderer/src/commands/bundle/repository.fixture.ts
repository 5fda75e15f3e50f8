import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { sampleBundle } from '../../../../review/src/what-if/cluster.fixture.ts';

/** A Git repository with a bundle below `rendered`. */
export class SampleRepository {
  readonly root = mkdtempSync(join(tmpdir(), 'sluice-history-'));
  readonly bundle = join(this.root, 'rendered');
  #minute = 0;

  constructor() {
    this.git('init', '-q', '-b', 'main');
  }

  /** Runs git without the user's settings; each commit is a minute after the one before. */
  git(...args: readonly string[]): string {
    const date = `${this.secondsOf(this.#minute)} +0000`;
    const env = {
      PATH: '/usr/bin:/bin',
      HOME: this.root,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_DATE: date,
    };
    const who = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', '-c', 'protocol.file.allow=always'];
    return execFileSync('/usr/bin/git', [...who, ...args], {
      cwd: this.root,
      env,
      encoding: 'utf8',
      stdio: 'pipe',
    }).trim();
  }

  /** When the commit of a number was made, in seconds since 1970; the first is 1. */
  secondsOf(commit: number): number {
    return 1_800_000_000 + commit * 60;
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    writeFileSync(join(this.root, path), text);
  }

  link(path: string, target: string): void {
    symlinkSync(target, join(this.root, path));
  }

  remove(path: string): void {
    rmSync(join(this.root, path), { recursive: true });
  }

  /** Writes the bundle of two nodes and a Service with these endpoints. @param last the last parts of their addresses */
  endpoints(...last: readonly number[]): void {
    rmSync(this.bundle, { recursive: true, force: true });
    const service = {
      name: 'web',
      clusterIP: '10.96.0.10',
      nodePort: 30_080,
      endpoints: last.map((number) => ({ address: `10.244.1.${number}`, node: 1 })),
    };
    const nodes = [
      { number: 1, zone: 'a' },
      { number: 2, zone: 'b' },
    ];
    for (const [path, text] of sampleBundle(nodes, [service])) this.write(`rendered/${path}`, text);
  }

  /** Commits what there is. @param staged what is in the index alone @returns the commit */
  commit(message = 'a change', staged = false): string {
    this.#minute++;
    if (!staged) this.git('add', '-A');
    this.git('commit', '-q', '--allow-empty', '-m', message);
    return this.git('rev-parse', 'HEAD');
  }

  destroy(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}
