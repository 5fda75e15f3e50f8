import { fileDigest } from '@sluice/bundle';
import { invalidContent } from '../http/failure.ts';
import { registryLimits } from '../http/limits.ts';
import type { OciDescriptor } from '../registry/artifact.ts';
import type { Referrers } from '../registry/referrers.ts';
import type { BlobCache } from './cache.ts';
import type { Content } from './content.ts';

/** What a `Content` has, verified by digest, and each part fetched once. */
export class VerifiedContent {
  /** All digests that were read. */
  readonly digests = new Set<string>();
  readonly #content: Content;
  readonly #cache: BlobCache | undefined;

  constructor(content: Content, cache?: BlobCache) {
    this.#content = content;
    this.#cache = cache;
  }

  /**
   * A manifest or an index.
   * @param size undefined where it is not known
   * @throws RegistryFailure, errors of the cache's file system
   */
  manifest(digest: string, size?: number): Promise<Buffer> {
    return this.#read('manifest', digest, size, registryLimits.manifestBytesMax);
  }

  /**
   * @param bytesMax a larger descriptor is refused before fetching
   * @throws RegistryFailure, errors of the cache's file system
   */
  blob({ digest, size }: OciDescriptor, bytesMax: number): Promise<Buffer> {
    return this.#read('blob', digest, size, bytesMax);
  }

  /** @throws RegistryFailure */
  referrers(digest: string): Promise<Referrers> {
    return this.#content.referrers(digest);
  }

  async #read(kind: 'manifest' | 'blob', digest: string, size: number | undefined, most: number): Promise<Buffer> {
    if (size !== undefined && size > most)
      throw invalidContent(digest, `it is ${size} bytes, and the limit is ${most}`);
    this.digests.add(digest);
    const bytesMax = size ?? most;
    const cached = this.#cache?.get(digest, bytesMax);
    if (cached !== undefined && cached.length === (size ?? cached.length)) return cached;
    const bytes = await this.#content.read(kind, digest, bytesMax);
    if (bytes.length !== (size ?? bytes.length) || `sha256:${fileDigest(bytes)}` !== digest)
      throw invalidContent(digest, 'its bytes do not match the digest');
    this.#cache?.put(digest, bytes);
    return bytes;
  }
}
