import { existsSync } from 'node:fs';
import { type BundleFiles, clusterFile, nodeFile, profileFile, quarantineFile, readNode } from '@sluice/bundle';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { askGit, type BlobEntry, type BundlePlace, listBlobs, placeIn, readBlobs } from './objects.ts';
import { isRevision, notABundle } from './revision.ts';
import { whyGit } from './run-git.ts';
import { secondsOf } from './time.ts';

/** A place in a history: a commit with the tree of the bundle in it. */
export interface HistoryStep {
  readonly commit: string;
  /** Undefined where the commit has no such directory. */
  readonly tree: string | undefined;
}

/** The most commits between two ends of a history. */
const commitsMax = 1_000_000;
/** The most characters of texts that are kept: those of some bundles of 10,000 Services, whose files are mostly the same. */
const keptCharactersMax = 256 * 1024 * 1024;

/**
 * The history of a bundle in Git. Objects are read, the work tree is not touched. Each blob is read once, unless the bundles of a
 * history have too little in common to be kept.
 */
export class BundleHistory {
  readonly place: BundlePlace;
  readonly #dir: string;
  /** By blob. */
  #texts = new Map<string, string>();
  #characters = 0;
  readonly #charactersMax: number;
  /** By node and tree. They share their texts. */
  readonly #files = new Map<string, BundleFiles>();

  /**
   * @param dir the bundle directory; one that is not in the work tree is looked for below the current directory
   * @param charactersMax of texts that are kept beside those of one bundle
   */
  constructor(dir: string, charactersMax = keptCharactersMax) {
    this.#dir = dir;
    this.#charactersMax = charactersMax;
    this.place = existsSync(dir) ? { directory: dir, path: '.' } : { directory: '.', path: dir.replace(/\/+$/, '') };
  }

  /**
   * The commit that a revision names, or for a time (`2026-11-24`, `2026-11-24T08:00:00Z`) the last commit at that time.
   * @param line the branch on whose first parents a time is looked for
   */
  resolve(text: string, line = 'HEAD'): string | Problem {
    const seconds = secondsOf(text);
    return this.#trying(text, () => (seconds === undefined ? this.#revision(text) : this.#at(text, seconds, line)));
  }

  #revision(text: string): string | Problem {
    if (!isRevision(text)) return unreadable(this.#dir, text, 'it is neither a valid revision nor a time');
    try {
      return this.#ask(['rev-parse', '--verify', '--end-of-options', `${text}^{commit}`]).trim();
    } catch (error) {
      return this.#missing(text, whyGit(error));
    }
  }

  /** Limits by time would stop at the first older commit, whatever the order of the others; on one line that is the last one. */
  #at(text: string, seconds: number, line: string): string | Problem {
    const from = this.#revision(line);
    if (typeof from !== 'string') return from;
    const commit = this.#ask(['rev-list', '--first-parent', '--max-count=1', `--before=@${seconds}`, from]).trim();
    return commit === '' ? this.#missing(text, `no commit of ${line} is as old`) : commit;
  }

  /**
   * The commits from one to another along first parents, the oldest first, both included, as far as the bundle differs from that of the
   * commit before; the last one always.
   */
  steps(from: string, to: string): readonly HistoryStep[] | Problem {
    return this.#trying(`${from}..${to}`, () => {
      const count = `--max-count=${commitsMax + 1}`;
      const lines = this.#ask(['rev-list', '--first-parent', '--parents', count, `${from}..${to}`])
        .split('\n')
        .filter(Boolean);
      if (lines.length > commitsMax) return unreadable(this.#dir, to, `there are more than ${commitsMax} commits`);
      const [, before] = lines.at(-1)?.split(' ') ?? [];
      if (before !== from) return this.#notOnLine(from, to);
      const commits = [from, ...lines.map((line) => line.split(' ', 1)[0]!).toReversed()];
      const trees = this.#treesOf(commits);
      const all = commits.map((commit, at): HistoryStep => ({ commit, tree: trees[at] }));
      return all.filter(({ tree }, at) => at === 0 || at === all.length - 1 || tree !== all[at - 1]!.tree);
    });
  }

  #treesOf(commits: readonly string[]): readonly (string | undefined)[] {
    const input = commits.map((commit) => `${placeIn(commit, this.place.path)}\n`).join('');
    const lines = askGit(this.place, ['cat-file', '--batch-check'], input).toString('utf8').split('\n');
    return commits.map((_, at) => /^([0-9a-f]{40,64}) tree \d+$/.exec(lines[at] ?? '')?.[1]);
  }

  /** The step of one commit. */
  step(commit: string): HistoryStep | Problem {
    return this.#trying(commit, () => ({ commit, tree: this.#treesOf([commit])[0] }));
  }

  /**
   * The files of a bundle that one node reads: its own, those of its profile and of the cluster.
   * @returns `INPUT_UNREADABLE` where the commit has no bundle, `BUNDLE_INVALID` for a wrong one, `BUNDLE_UNKNOWN_NODE`
   */
  filesOf(node: string, { commit, tree }: HistoryStep): BundleFiles | Problem {
    const name = `${commit.slice(0, 12)}:${this.#dir}`;
    const known = this.#files.get(`${node} ${tree}`);
    if (known) return known;
    if (tree === undefined) return unreadable(this.#dir, commit.slice(0, 12), 'the commit has no such directory');
    return this.#trying(commit.slice(0, 12), () => {
      const entries = listBlobs(this.place, tree);
      const wrong = notABundle(name, entries);
      if (wrong) return wrong;
      const nodePath = nodeFile(node);
      const file = entries.find(({ path }) => path === nodePath);
      if (!file) return unknownNode(name, node);
      const read = readNode(nodePath, this.#read([file]).get(nodePath) ?? '');
      if ('code' in read) return read;
      const profile = profileFile(read.profile).replace(/profile\.yaml$/, '');
      const isNodes = (path: string): boolean =>
        path === nodePath || path === clusterFile || path === quarantineFile || path.startsWith(profile);
      const own = entries.filter(({ path }) => isNodes(path));
      const files = this.#read(own);
      if (this.#characters > this.#charactersMax) this.#keepOnly(own);
      this.#files.set(`${node} ${tree}`, files);
      return files;
    });
  }

  #read(entries: readonly BlobEntry[]): BundleFiles {
    const unread = new Set(entries.flatMap(({ blob }) => (this.#texts.has(blob) ? [] : [blob])));
    for (const [blob, text] of readBlobs(this.place, [...unread])) {
      this.#texts.set(blob, text);
      this.#characters += text.length;
    }
    const sorted = entries.toSorted((a, b) => compareText(a.path, b.path));
    return new Map(sorted.map(({ path, blob }) => [path, this.#texts.get(blob)!]));
  }

  /** Forgets all texts but those of some files. */
  #keepOnly(entries: readonly BlobEntry[]): void {
    this.#files.clear();
    this.#texts = new Map(entries.map(({ blob }) => [blob, this.#texts.get(blob)!]));
    this.#characters = [...this.#texts.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** The commit at which two lines of history part; undefined where they share none. */
  mergeBase(a: string, b: string): string | undefined {
    try {
      return this.#ask(['merge-base', a, b]).trim() || undefined;
    } catch {
      return undefined;
    }
  }

  #isShallow(): boolean {
    return this.#ask(['rev-parse', '--is-shallow-repository']).trim() === 'true';
  }

  #missing(text: string, why: string): Problem {
    if (!this.#isShallow()) return unreadable(this.#dir, text, why);
    return { ...unreadable(this.#dir, text, `${why}; this clone is shallow`), hint: deepen };
  }

  #notOnLine(from: string, to: string): Problem {
    const [a, b] = [from.slice(0, 12), to.slice(0, 12)];
    if (this.#isShallow())
      return {
        ...unreadable(this.#dir, `${a} to ${b}`, 'this clone is shallow and lacks the commits between'),
        hint: deepen,
      };
    return {
      ...unreadable(this.#dir, `${a} to ${b}`, `${a} is not before ${b} on its line of first parents`),
      hint: `Pass an older commit of \`git log --first-parent ${b}\` as --from, and a newer one as --to`,
    };
  }

  #ask(args: readonly string[]): string {
    return askGit(this.place, args).toString('utf8');
  }

  #trying<T>(what: string, ask: () => T | Problem): T | Problem {
    try {
      return ask();
    } catch (error) {
      return unreadable(this.#dir, what, whyGit(error));
    }
  }
}

const deepen = 'Fetch the whole history with `git fetch --unshallow`, or clone without --depth';

const unreadable = (dir: string, what: string, why: string): Problem =>
  refusal(
    'INPUT_UNREADABLE',
    `Cannot read the history of ${dir} at ${JSON.stringify(what).slice(1, -1)}: ${why}`,
    'Run the command in a Git clone with the bundle, and pass a commit, branch or tag of it, or a time such as 2026-11-24T08:00:00Z',
  );

const unknownNode = (name: string, node: string): Problem =>
  refusal(
    'BUNDLE_UNKNOWN_NODE',
    `Cannot trace on node ${node}: ${name} has no ${nodeFile(node)}`,
    'Pass a node that the bundle had then; `git ls-tree` lists them',
  );
