import type { Referrers } from '../registry/referrers.ts';

/**
 * Where the parts of a release are read from: a repository of a registry, or an OCI image layout behind a web server or in a directory.
 * Nothing that it returns is verified.
 */
export interface Content {
  /** For messages, such as `registry.example.com/sluice/shop`. */
  readonly name: string;
  /**
   * The digest that a tag has now: `sha256:…`.
   * @throws RegistryFailure, also where there is no such tag
   */
  resolve(tag: string): Promise<string>;
  /**
   * The bytes that are stored under a digest.
   * @param kind `manifest` is a manifest or an index
   * @param bytesMax more are an error
   * @throws RegistryFailure
   */
  read(kind: 'manifest' | 'blob', digest: string, bytesMax: number): Promise<Buffer>;
  /**
   * The signatures and openings that refer to a manifest; of one that `resolve` returned last, those of that moment may be enough.
   * @throws RegistryFailure
   */
  referrers(digest: string): Promise<Referrers>;
}
