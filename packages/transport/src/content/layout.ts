import { join } from 'node:path';
import { readRegular } from '../files/regular.ts';
import { RegistryFailure } from '../http/failure.ts';
import { registryLimits } from '../http/limits.ts';
import type { WebClient } from '../http/web.ts';
import { type OciDescriptor, readDescriptor, readIndex, subjectKey, tagKey } from '../registry/artifact.ts';
import { isTag } from '../registry/reference.ts';
import { selectReferrers } from '../registry/referrers.ts';
import type { Content } from './content.ts';

/**
 * Reads a file of an image layout.
 * @param path such as `index.json`
 * @param bytesMax more are an error
 * @returns undefined where there is no such file
 * @throws RegistryFailure
 */
export type LayoutReader = (path: string, bytesMax: number) => Promise<Buffer | undefined>;

/** A tag of an image layout in a directory. */
export interface LayoutReference {
  readonly dir: string;
  readonly tag: string;
}

/** Parses `oci:DIR:TAG`. @returns undefined for another form, such as `oci://REGISTRY/REPOSITORY:TAG` */
export function readLayoutReference(text: string): LayoutReference | undefined {
  const [, dir = '', tag] = /^oci:(?!\/\/)(.+):([^:/]+)$/.exec(text) ?? [];
  return isTag(tag) ? { dir, tag } : undefined;
}

export const indexFile = 'index.json';
export const blobFile = (digest: string): string => `blobs/${digest.replace(':', '/')}`;

/**
 * The releases in an OCI image layout (image-spec 1.1, "OCI Image Layout Specification").
 * @param name for messages
 */
export function layoutContent(name: string, read: LayoutReader): Content {
  const found = async (path: string, bytesMax: number): Promise<Buffer> => {
    const bytes = await read(path, bytesMax);
    if (bytes === undefined) throw missing(`fetch ${name}/${path}`, 'there is no such file');
    return bytes;
  };
  const entries = async (): Promise<readonly unknown[]> =>
    readIndex(`${name}/${indexFile}`, await found(indexFile, registryLimits.manifestBytesMax));
  /** What named the last tag: its signatures and openings are there, and not of another moment. */
  let resolved: { readonly digest: string; readonly entries: readonly unknown[] } | undefined;
  return {
    name,
    resolve: async (tag) => {
      const now = await entries();
      const entry = now.find((one) => annotationsOf(one)[tagKey] === tag);
      if (entry === undefined) throw missing(`find the tag ${tag}`, `${name}/${indexFile} does not have it`);
      const { digest } = readDescriptor(`${name}/${indexFile}`, entry);
      resolved = { digest, entries: now };
      return digest;
    },
    read: (_kind, digest, bytesMax) => found(blobFile(digest), bytesMax),
    referrers: async (digest) => {
      const all = resolved?.digest === digest ? resolved.entries : await entries();
      const own = all.filter((one) => annotationsOf(one)[subjectKey] === digest);
      return selectReferrers(`${name}/${indexFile}`, own, false);
    },
  };
}

/** The annotations of an entry of `index.json`, of any form. */
export function annotationsOf(entry: unknown): Readonly<Record<string, unknown>> {
  const { annotations } = (entry ?? {}) as Partial<OciDescriptor>;
  return typeof annotations === 'object' && annotations !== null ? annotations : {};
}

function missing(what: string, why: string): RegistryFailure {
  const hint = 'Check the address, the tag and the digest';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot ${what}: ${why}`, hint, 404);
}

/** Reads a layout in a directory. */
export function directoryReader(dir: string): LayoutReader {
  return async (path, bytesMax) => {
    try {
      return readWithin(join(dir, path), bytesMax);
    } catch (error) {
      const { message } = error as Error;
      const hint = 'Check the directory and its permissions';
      throw new RegistryFailure('REGISTRY_INVALID', `Cannot read ${join(dir, path)}: ${message}`, hint);
    }
  };
}

/**
 * Reads a file of a layout in a directory.
 * @returns undefined where there is none
 * @throws errors of the file system, and for a file that is irregular or larger
 */
export function readWithin(path: string, bytesMax: number): Buffer | undefined {
  const bytes = readRegular(path, bytesMax, 'followed');
  if (typeof bytes === 'string') throw new Error(bytes);
  return bytes;
}

/** The last `index.json` of a web server. */
export interface WebMemory {
  index?: { readonly etag: string; readonly body: Buffer } | undefined;
}

/**
 * Reads a layout behind a web server. Of `index.json` it requests only changes, by its `ETag`.
 * @param memory of a reader before this one
 */
export function webReader(client: WebClient, memory: WebMemory = {}): LayoutReader {
  return async (path, bytesMax) => {
    const url = client.at(path);
    const known = path === indexFile ? memory.index : undefined;
    const question = { method: 'GET', bytesMax, ...(known && { headers: { 'if-none-match': known.etag } }) } as const;
    const good = known ? [200, 304, 404] : [200, 404];
    const { status, headers, body } = await client.ask(`fetch ${url.href}`, url, question, good);
    if (status === 404) return undefined;
    if (status === 304) return known?.body;
    const { etag } = headers;
    if (path === indexFile) memory.index = etag === undefined ? undefined : { etag, body };
    return body;
  };
}
