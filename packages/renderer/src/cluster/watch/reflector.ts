import type { JsonObject } from '../../render/kube.ts';
import type { Access } from '../access.ts';
import { ClusterFailure } from '../failure.ts';
import { isMap, mapAt, parseJson, textAt } from '../json.ts';
import { grantingRule, type ListedKind, listPath } from '../kinds.ts';
import { list } from '../list.ts';
import { refused } from '../refusal.ts';
import type { Patience } from '../request.ts';
import { readStream, type StreamEnd } from './stream.ts';
import { sleep } from '../sleep.ts';

/** What a reflector tells about the objects of a kind. */
export interface Sink {
  /** These are all there are; what is not among them is gone. */
  readonly replaced: (kind: ListedKind, objects: readonly JsonObject[]) => void;
  readonly changed: (kind: ListedKind, object: JsonObject) => void;
  readonly deleted: (kind: ListedKind, object: JsonObject) => void;
  /** What is known is what the server has, as far as it tells. */
  readonly current: (kind: ListedKind) => void;
  /** The server tells nothing, and what is known grows old. */
  readonly away: (kind: ListedKind, why: string) => void;
}

/** How long a reflector waits, and for what. */
export interface WatchPatience extends Patience {
  readonly backoffMaxMs: number;
  readonly silenceMs: number;
  /** The server ends a watch after this time, or up to twice of it: so that not all come back at once. */
  readonly watchSeconds: number;
  readonly lineBytesMax: number;
}

/**
 * Follows all objects of one kind for ever: lists them, then watches from where the list ended. A watch that ends is resumed, and
 * when the server no longer knows the place (410 Gone) the objects are listed again. Nothing it meets ends it but the signal.
 */
export class Reflector {
  readonly #access: Access;
  readonly #kind: ListedKind;
  readonly #sink: Sink;
  readonly #patience: WatchPatience;
  /** Where to go on watching; undefined: list first. */
  #version: string | undefined;
  #failures = 0;
  /** The last wait, milliseconds. */
  #pausedMs = 0;
  /** Waits for the stream of now to have stood for a while. */
  #standing: NodeJS.Timeout | undefined;
  /** It was said that what is known is current. */
  #isCurrent = false;

  constructor(access: Access, kind: ListedKind, sink: Sink, patience: WatchPatience) {
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
    const listed = await list(this.#access, this.#kind, { patience: { ...this.#patience, signal } });
    if (listed === undefined) {
      this.#fail(`${this.#access.server} does not know ${this.#kind.resource}`);
      return;
    }
    this.#version = listed.resourceVersion;
    this.#sink.replaced(this.#kind, listed.items);
  }

  async #watch(signal: AbortSignal): Promise<StreamEnd | undefined> {
    if (this.#version === undefined) return undefined;
    const { watchSeconds } = this.#patience;
    const query = new URLSearchParams({
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#version,
      timeoutSeconds: String(Math.ceil(watchSeconds * (1 + Math.random()))),
    });
    const path = `${listPath(this.#kind)}?${query.toString()}`;
    const reader = { onOpen: () => this.#open(), onLine: (line: string) => this.#take(line) };
    return readStream(this.#access, path, reader, this.#patience, signal);
  }

  /** Something that answers every watch with success and ends it at once, such as a page that asks for a login, is no news of the cluster. */
  #open(): void {
    // A stream that stands for longer than was waited for it was none of several failures in a row: where something on the way cuts every
    // connection after seconds, most of the time goes to following and not to waiting.
    this.#standing = setTimeout(() => this.#stands(), Math.max(this.#patience.backoffMs, this.#pausedMs));
    if (this.#failures <= 1) this.#tellCurrent();
  }

  #stands(): void {
    clearTimeout(this.#standing);
    this.#failures = 0;
    this.#tellCurrent();
  }

  #tellCurrent(): void {
    if (!this.#isCurrent) this.#sink.current(this.#kind);
    this.#isCurrent = true;
  }

  /** @throws Error for what is no event: the place is lost then, and the stream is begun anew */
  #take(line: string): void {
    const event = parseJson(line);
    if (!isMap(event) || !isMap(event['object'])) throw new Error('something came that is no event');
    const { type, object } = event as { type?: unknown; object: JsonObject };
    if (type === 'ERROR') {
      // Listing again is right after any error: it is the one way that needs no place.
      this.#version = undefined;
      throw new Error(
        `the server ended the watch: ${textAt(object, 'message') || textAt(object, 'reason') || 'no reason given'}`,
      );
    }
    if (type === 'DELETED') this.#sink.deleted(this.#kind, object);
    else if (type !== 'BOOKMARK') this.#sink.changed(this.#kind, object);
    this.#version = textAt(mapAt(object, 'metadata'), 'resourceVersion') || this.#version;
    this.#stands();
  }

  #after(end: StreamEnd | undefined): void {
    clearTimeout(this.#standing);
    this.#isCurrent = false;
    if (end === undefined) return;
    if (end.kind === 'silent') {
      // Not every server sends bookmarks, so it is no failure. Something on the way may keep back what comes: listing finds that.
      this.#version = undefined;
      return;
    }
    if (end.kind === 'ended') {
      // In order, after minutes; a server that ends every watch at once is given time too.
      if (this.#failures === 0) this.#failures = 1;
      else this.#fail('the server ends every watch at once');
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
    // One lost connection is resumed at once and is no news; what lasts is.
    if (this.#failures > 1 || this.#version === undefined) this.#sink.away(this.#kind, why);
  }

  async #pause(signal: AbortSignal): Promise<void> {
    const { backoffMs, backoffMaxMs } = this.#patience;
    const pause = Math.min(backoffMs * 2 ** (this.#failures - 1), backoffMaxMs);
    this.#pausedMs = pause * (0.5 + Math.random() / 2);
    await sleep(this.#pausedMs, signal);
  }
}

/** What is wrong, and for a right that is missing the rule that grants it. */
export function wordsOf({ message, problem: { code, hint } }: ClusterFailure): string {
  return code === 'CLUSTER_UNREACHABLE' ? message : `${message}. ${hint}`;
}
