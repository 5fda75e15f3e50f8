import { isMap, type JsonObject, parseJson } from '../../render/model/kube.ts';
import type { Access } from '../access.ts';
import { ClusterFailure } from '../failure.ts';
import { mapAt, textAt } from '../json.ts';
import { grantingRule, type ListedKind, listPath } from '../kinds.ts';
import { listAs } from '../list.ts';
import { refused } from '../refusal.ts';
import type { Patience } from '../request.ts';
import { readStream, type StreamEnd } from './stream.ts';
import { sleep } from '../sleep.ts';

// Informers of the client library end at a lost connection, ask for no bookmarks and keep all fields of all objects, and an answer without
// events ends the process: client-node.test.ts, "watch/reflector.ts".

/** Callbacks of a reflector. */
interface Sink<T> {
  /** What is kept of an object of a list until all of them are there. */
  readonly read: (kind: ListedKind, object: JsonObject) => T;
  /** The complete list of objects; all others are deleted. */
  readonly replaced: (kind: ListedKind, objects: readonly T[]) => void;
  readonly changed: (kind: ListedKind, object: JsonObject) => void;
  readonly deleted: (kind: ListedKind, object: JsonObject) => void;
  /** The watch is up to date. */
  readonly current: (kind: ListedKind) => void;
  /** The server is unreachable, and the known state is becoming stale. */
  readonly away: (kind: ListedKind, why: string) => void;
}

/** The timeouts of a reflector. */
export interface WatchPatience extends Patience {
  readonly backoffMaxMs: number;
  readonly silenceMs: number;
  /** The server ends a watch after this time, or up to twice as long, so that clients do not reconnect all at once. */
  readonly watchSeconds: number;
  readonly lineBytesMax: number;
}

/**
 * Watches all objects of one kind: lists them, then watches from the version of the list. Resumes a watch that ends, and lists again after
 * 410 Gone. Only the signal stops it.
 */
export class Reflector<T> {
  readonly #access: Access;
  readonly #kind: ListedKind;
  readonly #sink: Sink<T>;
  readonly #patience: WatchPatience;
  /** The version to watch from; undefined: list first. */
  #version: string | undefined;
  #failures = 0;
  /** The last wait, milliseconds. */
  #pausedMs = 0;
  /** Fires when the current stream has been open for a while. */
  #openTimer: NodeJS.Timeout | undefined;
  /** `current` was called for this stream. */
  #isCurrent = false;

  constructor(access: Access, kind: ListedKind, sink: Sink<T>, patience: WatchPatience) {
    this.#access = access;
    this.#kind = kind;
    this.#sink = sink;
    this.#patience = patience;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#version === undefined) await this.#list(signal);
        this.#after(await this.#watch(signal));
      } catch (error) {
        if (!(error instanceof ClusterFailure)) throw error;
        // An aborted request is not a failure.
        if (signal.aborted) return;
        this.#fail(wordsOf(error));
      }
      if (this.#failures > 0) await this.#pause(signal);
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const read = (object: JsonObject): T => this.#sink.read(this.#kind, object);
    const listed = await listAs(this.#access, this.#kind, read, { patience: { ...this.#patience, signal } });
    if (listed === undefined) {
      this.#fail(`${this.#access.server} does not have ${this.#kind.resource}`);
      return;
    }
    this.#version = listed.resourceVersion;
    this.#sink.replaced(this.#kind, listed.items);
  }

  async #watch(signal: AbortSignal): Promise<StreamEnd | undefined> {
    if (this.#version === undefined) return undefined;
    const { watchSeconds } = this.#patience;
    const query = new URLSearchParams({
      ...this.#kind.only,
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#version,
      timeoutSeconds: String(Math.ceil(watchSeconds * (1 + Math.random()))),
    });
    const path = `${listPath(this.#kind)}?${query.toString()}`;
    const reader = { onOpen: () => this.#open(), onLine: (line: string) => this.#take(line) };
    return readStream(this.#access, path, reader, this.#patience, signal);
  }

  /** After several failures an open stream alone does not count as current: a login page also answers with success. */
  #open(): void {
    // A stream that stays open for longer than the last pause resets the failures: if a middlebox cuts every connection after seconds,
    // most of the time must go to watching and not to waiting.
    this.#openTimer = setTimeout(() => this.#stayedOpen(), Math.max(this.#patience.backoffMs, this.#pausedMs));
    if (this.#failures <= 1) this.#reportCurrent();
  }

  #stayedOpen(): void {
    clearTimeout(this.#openTimer);
    this.#failures = 0;
    this.#reportCurrent();
  }

  #reportCurrent(): void {
    if (!this.#isCurrent) this.#sink.current(this.#kind);
    this.#isCurrent = true;
  }

  /** @throws Error for an invalid event: then the stream is restarted */
  #take(line: string): void {
    const event = parseJson(line);
    if (!isMap(event) || !isMap(event['object'])) throw new Error('invalid watch event');
    const { type, object } = event as { type?: unknown; object: JsonObject };
    if (type === 'ERROR') {
      // Listing again is right after any error, because it needs no resource version.
      this.#version = undefined;
      throw new Error(
        `the server ended the watch: ${textAt(object, 'message') || textAt(object, 'reason') || 'no reason given'}`,
      );
    }
    if (type === 'DELETED') this.#sink.deleted(this.#kind, object);
    else if (type !== 'BOOKMARK') this.#sink.changed(this.#kind, object);
    this.#version = textAt(mapAt(object, 'metadata'), 'resourceVersion') || this.#version;
    this.#stayedOpen();
  }

  #after(end: StreamEnd | undefined): void {
    clearTimeout(this.#openTimer);
    this.#isCurrent = false;
    if (end === undefined) return;
    if (end.kind === 'silent') {
      // Not a failure, as not every server sends bookmarks. A middlebox may hold back events: listing again detects that.
      this.#version = undefined;
      return;
    }
    if (end.kind === 'ended') {
      // Normal after minutes; back off from a server that ends every watch immediately.
      if (this.#failures === 0) this.#failures = 1;
      else this.#fail('the server ends every watch immediately');
      return;
    }
    if (end.kind === 'lost') {
      this.#fail(end.why);
      return;
    }
    if (end.status === 401) this.#access.renew();
    if (end.status === 410) this.#version = undefined;
    const what = `watch ${this.#kind.resource} of ${this.#access.server}`;
    this.#fail(wordsOf(refused(what, end.status, grantingRule(this.#kind))));
  }

  #fail(why: string): void {
    this.#failures += 1;
    // A single lost connection is resumed immediately and not reported.
    if (this.#failures > 1 || this.#version === undefined) this.#sink.away(this.#kind, why);
  }

  async #pause(signal: AbortSignal): Promise<void> {
    const { backoffMs, backoffMaxMs } = this.#patience;
    const pause = Math.min(backoffMs * 2 ** (this.#failures - 1), backoffMaxMs);
    this.#pausedMs = pause * (0.5 + Math.random() / 2);
    await sleep(this.#pausedMs, signal);
  }
}

/** The message of a failure, for a missing permission with the RBAC rule. */
export function wordsOf({ message, problem: { code, hint } }: ClusterFailure): string {
  return code === 'CLUSTER_UNREACHABLE' ? message : `${message}. ${hint}`;
}
