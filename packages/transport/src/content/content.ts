import type { OciDescriptor } from '../registry/artifact.ts';

/** What refers to a manifest: signatures and openings of waves. */
export interface Referrers {
  /** Sorted by digest; each is read and checked later. */
  readonly referrers: readonly OciDescriptor[];
  /** Why others were ignored, in words. */
  readonly passedOver: readonly string[];
}

/**
 * Where the parts of a release are read from: a repository of a registry, or an OCI image layout behind a web server or in a directory.
 * Nothing that it returns is verified.
 */
export interface Content {
  /** For messages, such as `registry.example.com/sluice/shop`. */
  readonly name: string;
  /**
   * The digest that a tag has now.
   * @throws RegistryFailure
   */
  resolve(tag: string): Promise<string>;
  /**
   * The bytes with a digest.
   * @param bytesMax more are an error
   * @throws RegistryFailure
   */
  read(kind: 'manifest' | 'blob', digest: string, bytesMax: number): Promise<Buffer>;
  referrers(digest: string): Promise<Referrers>;
}
