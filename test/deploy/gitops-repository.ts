import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { GitHttpServer } from '../servers/git-http.ts';

/** A Git repository on loopback, as a server of Git repositories has it: smart HTTP by `git http-backend`. */
export class Repository {
  readonly #dir = mkdtempSync(join(tmpdir(), 'sluice-rules-'));
  #server: GitHttpServer | undefined;
  readonly folder = join(this.#dir, 'work');

  private constructor() {
    mkdirSync(this.folder);
    mkdirSync(join(this.#dir, 'served/shop'), { recursive: true });
    const bare = join(this.#dir, 'served/shop/rules.git');
    this.git('init', '-q', '-b', 'main', `--separate-git-dir=${bare}`);
  }

  /** @param files path → text */
  static async open(files: Readonly<Record<string, string>>): Promise<Repository> {
    const repository = new Repository();
    repository.#server = await GitHttpServer.open(join(repository.#dir, 'served'));
    repository.commit(files);
    return repository;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server?.port}/shop/rules.git`;
  }

  /**
   * Commits changed files.
   * @param files path → text; undefined removes it
   * @returns the commit
   */
  commit(files: Readonly<Record<string, string | undefined>>): string {
    for (const [path, text] of Object.entries(files)) {
      const file = join(this.folder, path);
      mkdirSync(dirname(file), { recursive: true });
      if (text === undefined) rmSync(file, { force: true });
      else writeFileSync(file, text);
    }
    this.git('add', '-A');
    this.git('-c', 'user.name=test', '-c', 'user.email=test@example.com', 'commit', '--allow-empty', '-qm', 'change');
    return this.git('rev-parse', 'HEAD').trim();
  }

  git(...args: readonly string[]): string {
    return execFileSync('git', args, { cwd: this.folder, encoding: 'utf8' });
  }

  close(): void {
    this.#server?.close();
    rmSync(this.#dir, { recursive: true });
  }
}
