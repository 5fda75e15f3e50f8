import { isOpeningFile, isSignatureFile } from '@sluice/bundle';
import type { BlobCache } from '@sluice/transport/content/cache.ts';
import type { Content } from '@sluice/transport/content/content.ts';
import { openRelease, type OpenRelease } from '@sluice/transport/content/pull.ts';
import type { HttpClient } from '@sluice/transport/http/client.ts';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import type { FoundRelease, Source, SourceFiles } from './source.ts';

/** What is known of the placed release, for as long as the process runs. */
export interface PlacedParts {
  /** Digests of its layers: their files need not be read again. */
  layers: ReadonlySet<string>;
  /** What the cache keeps for the next release. */
  digests: ReadonlySet<string>;
}

interface ContentParts {
  readonly content: Content;
  readonly client: HttpClient;
  /** `sha256:…` instead of a tag: it never changes, but signatures and openings are added to it. */
  readonly reference: { readonly tag: string } | { readonly digest: string };
  readonly cache: BlobCache;
  readonly node: string;
  readonly placed: PlacedParts;
}

/** A release in a registry, or in an image layout behind a web server. */
export class ContentSource implements Source {
  readonly name: string;
  readonly #parts: ContentParts;
  #digest = '';

  constructor(parts: ContentParts) {
    const { content, reference } = parts;
    this.name = 'tag' in reference ? `${content.name}:${reference.tag}` : `${content.name}@${reference.digest}`;
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#parts.client.bytes;
  }

  async look(): Promise<string> {
    const { content, reference } = this.#parts;
    this.#digest = 'tag' in reference ? await content.resolve(reference.tag) : reference.digest;
    const { referrers } = await content.referrers(this.#digest);
    return [this.#digest, ...referrers.map(({ digest }) => digest)].join(' ');
  }

  async open(check: (top: SourceFiles) => Promise<string>): Promise<FoundRelease> {
    const { cache, content, node } = this.#parts;
    const part = { node, profileOf: (files: SourceFiles) => check(asText(files)) };
    const release = await this.#keeping(() => openRelease(content, this.#digest, part, cache));
    return {
      top: asText(release.files),
      read: (wanted) => this.#read(release, wanted),
      placed: () => this.#keep(release),
    };
  }

  close(): void {
    this.#parts.client.close();
  }

  /** First the layers that the placed release does not have; the others only where files are missing then. */
  async *#read(release: OpenRelease, wanted: ReadonlySet<string>): AsyncGenerator<SourceFiles> {
    const { placed } = this.#parts;
    const missing = new Set(wanted);
    const isKnown = ({ digest }: { readonly digest: string }): boolean => placed.layers.has(digest);
    const layers = Map.groupBy(release.layers, isKnown);
    for (const group of [layers.get(false) ?? [], layers.get(true) ?? []]) {
      const files = release.read(group);
      for (let more = missing.size > 0; more; ) {
        const next = await this.#keeping(() => files.next());
        more = next.done !== true;
        if (next.done === true) break;
        for (const path of next.value.keys()) missing.delete(path);
        yield next.value;
      }
    }
  }

  /** The release was placed: the next one shares parts with it. */
  #keep(release: OpenRelease): void {
    const { cache, placed } = this.#parts;
    placed.layers = new Set(release.layers.map(({ digest }) => digest));
    placed.digests = release.digests;
    cache.prune(placed.digests);
  }

  /** What was fetched of a release that did not come whole stays for the next attempt, unless the release itself is the reason. */
  async #keeping<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const isOutage = error instanceof RegistryFailure && error.problem.code === 'REGISTRY_UNREACHABLE';
      if (!isOutage) this.#parts.cache.prune(this.#parts.placed.digests);
      throw error;
    }
  }
}

/** Signatures and openings come with a character for each byte. */
const asText = (files: SourceFiles): SourceFiles =>
  new Map(
    [...files].map(([path, text]) => {
      const isBytes = isSignatureFile(path) || isOpeningFile(path);
      return [path, isBytes ? Buffer.from(text, 'latin1').toString('utf8') : text];
    }),
  );
