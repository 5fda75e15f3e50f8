import type { WebMemory } from '@sluice/transport/content/layout.ts';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import type { FoundRelease, Source, SourceFiles } from './source.ts';

/** The web servers of a source. Attempts, and who follows their events, begin with the one that was reached last. */
export class Servers {
  readonly urls: readonly string[];
  readonly #memories: ReadonlyMap<string, WebMemory>;
  #reached = 0;

  constructor(urls: readonly string[]) {
    this.urls = urls;
    this.#memories = new Map(urls.map((url) => [url, {}]));
  }

  /** All of them, each once. */
  get inOrder(): readonly string[] {
    return [...this.urls.slice(this.#reached), ...this.urls.slice(0, this.#reached)];
  }

  reached(url: string): void {
    this.#reached = Math.max(this.urls.indexOf(url), 0);
  }

  /** The last `index.json` of a server. */
  memory(url: string): WebMemory {
    return this.#memories.get(url) ?? {};
  }
}

/** The first of several servers that answers, as one source. */
export class ListedSource implements Source {
  readonly name: string;
  readonly #servers: Servers;
  readonly #at: (url: string, secondsMax: number) => Source;
  readonly #secondsMax: number;
  /** Those that were asked; the last one is used. */
  readonly #asked: Source[] = [];

  /**
   * @param tag for messages
   * @param at makes the source of one server, for so long
   * @param secondsMax of all together
   */
  constructor(servers: Servers, tag: string, at: (url: string, secondsMax: number) => Source, secondsMax: number) {
    this.name = `${servers.urls.join(', ')}:${tag}`;
    this.#servers = servers;
    this.#at = at;
    this.#secondsMax = secondsMax;
  }

  get bytes(): number {
    return this.#asked.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** @throws RegistryFailure of the first one, where none has a release */
  async look(): Promise<string> {
    const startMs = performance.now();
    let failure: RegistryFailure | undefined;
    for (const url of this.#servers.inOrder) {
      const secondsLeft = this.#secondsMax - Math.floor((performance.now() - startMs) / 1000);
      if (secondsLeft <= 0) break;
      const source = this.#at(url, secondsLeft);
      this.#asked.push(source);
      try {
        const found = await source.look();
        this.#servers.reached(url);
        return found;
      } catch (error) {
        if (!(error instanceof RegistryFailure)) throw error;
        failure ??= error;
      }
    }
    throw failure ?? new Error('no server was asked');
  }

  open(check: (top: SourceFiles) => Promise<string>): Promise<FoundRelease> {
    return (this.#asked.at(-1) as Source).open(check);
  }

  close(): void {
    for (const source of this.#asked) source.close?.();
  }
}
