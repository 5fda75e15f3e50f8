import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { sourceSchema } from '../config-source.ts';
import { type Attempt, fetchOnce, type FetchNode } from '../fetch/fetch.ts';
import { FetchMemory } from '../fetch/memory.ts';
import { sourceOf } from '../fetch/open.ts';
import { PlacedRelease } from '../fetch/placed.ts';
import type { Source } from '../fetch/source.ts';
import { Inbox } from '../inbox/inbox.ts';
import { ReleaseGate } from '../inbox/release-gate.ts';
import { trustOf } from '../inbox/trust.ts';
import { runChildren } from '../kernel/run.ts';
import { sampleNode } from './bundle.fixture.ts';
import { type GateScene, noon } from './gate.fixture.ts';

/** For tests only: the fetch process of a node, and the daemon that reads what it placed. */
export class Fetcher {
  readonly directory: string;
  readonly #scene: GateScene;
  readonly #open: () => Source;
  #node: FetchNode | undefined;

  /** @param source as in `sluiced.yaml`; its directory is in the scene */
  constructor(scene: GateScene, source: object, environment: Readonly<Record<string, string>> = {}) {
    this.#scene = scene;
    this.directory = join(scene.scratch, 'fetched');
    const config = v.parse(sourceSchema, { directory: this.directory, ...source });
    this.#open = sourceOf(config, sampleNode, { environment, run: runChildren() });
  }

  /** Forgets all that is not on the disk. */
  restart(): void {
    this.#node = undefined;
  }

  #gate(state: string, remember: boolean): ReleaseGate {
    return new ReleaseGate(
      { node: sampleNode, state, allowedSigners: this.#scene.signersFile, threshold: 1, floor: 0 },
      { run: runChildren(), nowMs: () => noon, trust: trustOf(undefined), remember: () => remember },
    );
  }

  /** @param source another one than that of the config */
  attempt(source = this.#open()): Promise<Attempt> {
    this.#node ??= {
      name: sampleNode,
      placed: new PlacedRelease(this.directory, runChildren()),
      gate: this.#gate(this.directory, true),
      memory: new FetchMemory(this.directory, () => performance.now(), 60_000),
      nowMs: () => noon,
    };
    return fetchOnce(source, this.#node);
  }

  /** The attempt in one line. */
  async said(source?: Source): Promise<string> {
    const attempt = await this.attempt(source);
    if (attempt.kind === 'placed') {
      const { serial, revision } = attempt.release;
      return `placed ${serial}${revision === undefined ? '' : `.${revision}`}: ${attempt.files} files`;
    }
    if (attempt.kind === 'same') return 'same';
    const problems = attempt.kind === 'failed' ? [attempt.problem] : attempt.problems;
    return `${attempt.kind} ${problems.map(({ code, message, hint }) => `${code} ${message} (${hint})`).join()}`;
  }

  /** What the daemon makes of the placed release, as a new node. */
  async taken(): Promise<string> {
    const state = join(this.#scene.scratch, 'daemon');
    rmSync(state, { recursive: true, force: true });
    const inbox = new Inbox(join(this.directory, 'release'), () => noon, trustOf(undefined), this.#gate(state, true));
    const arrival = await inbox.look();
    if (arrival.kind === 'bundle') return `serial ${arrival.release?.serial}`;
    return arrival.kind === 'absent'
      ? 'absent'
      : arrival.problems.map(({ code, message }) => `${code} ${message}`).join();
  }

  /** Path → inode of each placed file: a file that is written again has another one. */
  inodes(): Readonly<Record<string, number>> {
    const top = join(this.directory, 'release');
    const files = readdirSync(top, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
    const paths = files.map((one) => join(one.parentPath, one.name)).toSorted();
    return Object.fromEntries(paths.map((path) => [path.slice(top.length + 1), statSync(path).ino]));
  }
}
