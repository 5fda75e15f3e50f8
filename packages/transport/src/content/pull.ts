import {
  archiveLimits,
  bundleLimits,
  fileDigest,
  isOpeningFile,
  isProblem,
  isSignatureFile,
  readArchive,
  readPath,
  sumsFile,
} from '@sluice/bundle';
import { invalidContent } from '../http/failure.ts';
import {
  type OciDescriptor,
  mediaTypes,
  nodesKey,
  profileKey,
  readManifest,
  readReleaseIndex,
  releaseTypeOf,
} from '../registry/artifact.ts';
import { pullAttachments } from './attachments.ts';
import type { BlobCache } from './cache.ts';
import type { Content } from './content.ts';
import { isInBucket, mergeSums } from './split.ts';
import { VerifiedContent } from './verified.ts';

/** One node's part of a release. */
export interface ReleasePart {
  readonly node: string;
  /**
   * The profile of the node. It gets the shared files, `SHA256SUMS`, signatures and openings, before any file of a node or a profile is
   * fetched: this is where signatures are verified before `release.yaml` is read. Its errors end the pull.
   */
  profileOf(files: ReadonlyMap<string, string>): string | Promise<string>;
}

/** A release whose shared files were fetched. The digest covers every byte of it but signatures and openings, which anyone may add. */
export interface OpenRelease {
  /** Path → text: the shared files, `SHA256SUMS`, signatures and openings. */
  readonly files: ReadonlyMap<string, string>;
  /** Why referrers were ignored, in words. */
  readonly passedOver: readonly string[];
  /** The digests of all its parts, and of their referrers: what a cache needs to keep. */
  readonly digests: ReadonlySet<string>;
  /** The layers of its nodes and profiles. The same digest means the same files. */
  readonly layers: readonly OciDescriptor[];
  /**
   * The files of layers, one layer after the other, so that only a few are in memory.
   * @throws RegistryFailure
   */
  read(layers: readonly OciDescriptor[]): AsyncGenerator<ReadonlyMap<string, string>>;
}

/** A whole release, or one node's part of it. */
export type PulledRelease = Pick<OpenRelease, 'files' | 'passedOver' | 'digests'>;

/**
 * Fetches a release with its signatures and openings, of either version of the format. Every part is verified by its digest.
 * @param digest of the release: `sha256:…`
 * @param part selects one node's part; default: all
 * @param cache has parts that were fetched before, and gets the others
 * @throws RegistryFailure, errors of the cache's file system, and what `part` throws
 */
export async function pullRelease(
  content: Content,
  digest: string,
  part?: ReleasePart,
  cache?: BlobCache,
): Promise<PulledRelease> {
  const release = await openRelease(content, digest, part, cache);
  const files = new Map(release.files);
  for await (const more of release.read(release.layers)) for (const [path, text] of more) files.set(path, text);
  return { ...release, files };
}

/** As `pullRelease`, up to the shared files: the caller reads the layers, and only those that it needs. */
export async function openRelease(
  content: Content,
  digest: string,
  part?: ReleasePart,
  cache?: BlobCache,
): Promise<OpenRelease> {
  const source = new VerifiedContent(content, cache);
  const release = await readParts(source, digest);
  const reader = new LayerReader(source, digest);
  const files = new Map<string, string>();
  const sums: string[] = [];
  for await (const shared of reader.read(release.shared))
    for (const [path, text] of shared) {
      if (path === sumsFile) sums.push(text);
      else files.set(path, text);
    }
  const merged = mergeSums(sums);
  if (merged === undefined) throw invalidContent(digest, `a part of its ${sumsFile} is missing or has no line feed`);
  files.set(sumsFile, merged);
  const attached = await pullAttachments(source, digest, fileDigest(merged));
  for (const [path, text] of attached.files) files.set(path, text);
  const profile = await part?.profileOf(files);
  const nodes = release.nodes.filter((layer) => part === undefined || isOfNode(layer, part.node));
  const profiles = await release.profiles(profile);
  const layers = [...nodes, ...profiles];
  const digests = new Set([...release.shared, ...layers].map((layer) => layer.digest));
  if (digests.size < release.shared.length + layers.length)
    throw invalidContent(digest, 'two of its layers contain the same files');
  return {
    files,
    passedOver: attached.passedOver,
    digests: new Set([...digests, ...source.digests]),
    layers,
    read: (wanted) => reader.read(wanted),
  };
}

interface Parts {
  readonly shared: readonly OciDescriptor[];
  readonly nodes: readonly OciDescriptor[];
  /** The layers of a profile; of all where it is undefined. */
  profiles(profile: string | undefined): Promise<readonly OciDescriptor[]>;
}

/** The layers of a release: packages/bundle/README.md, "In a registry or behind a web server". */
async function readParts(source: VerifiedContent, digest: string): Promise<Parts> {
  const document = await source.manifest(digest);
  if (releaseTypeOf(digest, document) === mediaTypes.release) {
    const { layers } = readManifest(digest, document, mediaTypes.release);
    const shared = layers.filter((layer) => layer.annotations?.[profileKey] === undefined);
    if (shared.length !== 1) throw invalidContent(digest, 'the layer of the shared files is missing');
    const others = layers.filter((layer) => !shared.includes(layer));
    return { shared, nodes: [], profiles: async (profile) => others.filter((layer) => isOfProfile(layer, profile)) };
  }
  const entries = readReleaseIndex(digest, document);
  const read = async (entry: OciDescriptor, type: string): Promise<readonly OciDescriptor[]> =>
    readManifest(entry.digest, await source.manifest(entry.digest, entry.size), type).layers;
  const layers = await read(entries.shared, mediaTypes.shared);
  return {
    shared: layers.filter((layer) => layer.annotations?.[nodesKey] === undefined),
    nodes: layers.filter((layer) => layer.annotations?.[nodesKey] !== undefined),
    profiles: async (profile) => {
      const found: OciDescriptor[] = [];
      for (const entry of entries.profiles.filter((one) => isOfProfile(one, profile)))
        for (const layer of await read(entry, mediaTypes.profile))
          found.push({ ...layer, annotations: { ...entry.annotations } });
      return found;
    },
  };
}

const isOfProfile = ({ annotations }: OciDescriptor, profile: string | undefined): boolean =>
  profile === undefined || annotations?.[profileKey] === profile;

const isOfNode = ({ digest, annotations }: OciDescriptor, node: string): boolean => {
  const isThere = isInBucket(annotations?.[nodesKey] ?? '', node);
  if (isThere === undefined) throw invalidContent(digest, 'its nodes are not of the form BUCKET/COUNT');
  return isThere;
};

/** Layers that are fetched at a time; so many are in memory. */
const layersAtATime = 4;

/** Reads the layers of one release within the limits of a bundle. */
class LayerReader {
  readonly #source: VerifiedContent;
  readonly #release: string;
  /** Path → the layer that has it. */
  readonly #seen = new Map<string, string>();
  #packedBytes = 0;
  #bytes = 0;

  constructor(source: VerifiedContent, release: string) {
    this.#source = source;
    this.#release = release;
  }

  /** @throws RegistryFailure */
  async *read(layers: readonly OciDescriptor[]): AsyncGenerator<ReadonlyMap<string, string>> {
    for (const { size } of layers) this.#packedBytes += size;
    const { archiveBytesMax } = archiveLimits;
    if (this.#packedBytes > archiveBytesMax)
      throw this.#invalid(`its layers are ${this.#packedBytes} bytes, and the limit is ${archiveBytesMax}`);
    for (let at = 0; at < layers.length; at += layersAtATime) {
      const window = layers.slice(at, at + layersAtATime);
      const packed = await Promise.all(window.map((layer) => this.#source.blob(layer, archiveBytesMax)));
      for (const [index, layer] of window.entries()) yield this.#unpack(layer, packed[index] as Buffer);
    }
  }

  #unpack({ digest, annotations }: OciDescriptor, packed: Buffer): ReadonlyMap<string, string> {
    const archive = readArchive(digest, packed);
    if (isProblem(archive)) throw invalidContent(digest, archive.message);
    for (const [path, text] of archive.files) {
      if (!isFitting(path, annotations)) throw invalidContent(digest, `it contains ${path}`);
      this.#bytes += text.length;
      if ((this.#seen.get(path) ?? digest) !== digest && path !== sumsFile)
        throw this.#invalid(`two of its layers contain ${path}`);
      this.#seen.set(path, digest);
    }
    const { treeBytesMax, filesMax } = bundleLimits;
    if (this.#bytes > treeBytesMax || this.#seen.size > filesMax)
      throw this.#invalid(`it has more than ${treeBytesMax} bytes or ${filesMax} files`);
    return archive.files;
  }

  #invalid(why: string): Error {
    return invalidContent(this.#release, why);
  }
}

/** Whether a file belongs to a layer: of a profile, of nodes, or of what all nodes need. */
function isFitting(path: string, annotations: OciDescriptor['annotations'] = {}): boolean {
  const what = readPath(path);
  if (isSignatureFile(path) || isOpeningFile(path)) return false;
  if (annotations[nodesKey] !== undefined) return what?.kind === 'node';
  return (what && 'profile' in what ? what.profile : undefined) === annotations[profileKey];
}
