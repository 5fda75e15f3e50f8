import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { type SourceConfig, sourceSchema } from '../config-source.ts';
import type { CredentialsParts } from '../fetch/credentials.ts';
import { type Attempt, fetchOnce, type FetchNode } from '../fetch/fetch.ts';
import { Follower } from '../fetch/follow.ts';
import { fetchLoop, type LoopParts } from '../fetch/loop.ts';
import { FetchMemory } from '../fetch/memory.ts';
import { eventsOf, serversOf, sourceOf } from '../fetch/open.ts';
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
  readonly #config: SourceConfig;
  readonly #parts: CredentialsParts;
  readonly #open: () => Source;
  #node: FetchNode | undefined;

  /** @param source as in `sluiced.yaml`; its directory is in the scene */
  constructor(scene: GateScene, source: object, environment: Readonly<Record<string, string>> = {}) {
    this.#scene = scene;
    this.directory = join(scene.scratch, 'fetched');
    this.#config = v.parse(sourceSchema, { directory: this.directory, ...source });
    this.#parts = { environment, run: runChildren() };
    this.#open = sourceOf(this.#config, sampleNode, this.#parts);
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
    return fetchOnce(source, this.#fetchNode());
  }

  #fetchNode(): FetchNode {
    return (this.#node ??= {
      name: sampleNode,
      placed: new PlacedRelease(this.directory, runChildren()),
      gate: this.#gate(this.directory, true),
      memory: new FetchMemory(this.directory, () => performance.now(), 60_000),
      nowMs: () => noon,
    });
  }

  /** Runs the loop of the process, which follows the events of its source, until the signal. @param said gets what it logs */
  async follow(signal: AbortSignal, said: string[] = []): Promise<void> {
    const servers = serversOf(this.#config);
    const add = (details: object, message: string): void => void said.push(`${message} ${JSON.stringify(details)}`);
    const log = { info: add, warn: add };
    const events = (url: string, until: AbortSignal): AsyncIterable<string> =>
      eventsOf(this.#config, this.#parts, url, until);
    const follower = new Follower({ node: sampleNode, servers, events, log });
    const loop: LoopParts = {
      node: this.#fetchNode(),
      directory: this.directory,
      open: sourceOf(this.#config, sampleNode, this.#parts, servers),
      intervalMs: this.#config.intervalSeconds * 1000,
      follower,
      requestFile: join(this.#scene.scratch, 'request'),
      log,
    };
    await Promise.all([fetchLoop(loop, signal), follower.run(signal)]);
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
