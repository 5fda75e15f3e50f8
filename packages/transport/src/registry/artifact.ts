import { fileDigest } from '@sluice/bundle';
import { invalidContent } from '../http/failure.ts';
import { registryLimits } from '../http/limits.ts';
import { isDigest } from './reference.ts';

// A release is an image index of OCI image-spec 1.1 with an `artifactType`: manifests for the shared files and for each profile, whose layers
// are archives. Signatures and openings of waves are added later and by other people: each is a separate manifest with the release as its
// `subject`. packages/bundle/README.md has the format.

export const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  empty: 'application/vnd.oci.empty.v1+json',
  /** Of the first version of the format: one manifest, a layer for shared files and one for each profile. */
  release: 'application/vnd.sluice.release.v1',
  releaseIndex: 'application/vnd.sluice.release.v2',
  shared: 'application/vnd.sluice.shared.v2',
  profile: 'application/vnd.sluice.profile.v2',
  archive: 'application/vnd.sluice.archive.v1.tar+zstd',
  signature: 'application/vnd.sluice.signature.v1',
  opening: 'application/vnd.sluice.opening.v1',
  receipts: 'application/vnd.sluice.receipts.v1',
} as const;

export const titleKey = 'org.opencontainers.image.title';
/** The profile of a manifest, or of a layer of the first version; absent on that of the shared files. */
export const profileKey = 'dev.sluice.profile';
/** The serial of a release, on its index. */
export const serialKey = 'dev.sluice.serial';
/** The bucket of a layer with files of nodes: `3/16`. */
export const nodesKey = 'dev.sluice.nodes';
/** In `index.json` of an image layout: what an entry refers to; its tag; and the tag that it had before. */
export const subjectKey = 'dev.sluice.subject';
export const tagKey = 'org.opencontainers.image.ref.name';
export const previousKey = 'dev.sluice.previous';

/** OCI image-spec 1.1, "Content Descriptors". */
export interface OciDescriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly artifactType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The content in base64, as it is: its digest is to be verified. */
  readonly data?: string;
}

interface OciManifest {
  readonly artifactType: string;
  readonly layers: readonly OciDescriptor[];
  readonly subject?: OciDescriptor;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The empty configuration of artifacts. */
export const emptyConfig = Buffer.from('{}');

export function descriptorOf(
  mediaType: string,
  bytes: Uint8Array,
  annotations?: Readonly<Record<string, string>>,
): OciDescriptor {
  const digest = `sha256:${fileDigest(bytes)}`;
  return { mediaType, digest, size: bytes.length, ...(annotations ? { annotations } : {}) };
}

/** Prints a manifest: the same bytes for the same release, so pushing again is a no-op. */
export function printManifest({ artifactType, layers, subject, annotations }: OciManifest): Buffer {
  const document = {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    artifactType,
    config: descriptorOf(mediaTypes.empty, emptyConfig),
    layers,
    ...(subject ? { subject } : {}),
    ...(annotations ? { annotations } : {}),
  };
  return Buffer.from(`${JSON.stringify(document)}\n`);
}

/**
 * Parses a manifest whose digest was verified.
 * @param what its name in problems
 * @throws RegistryFailure (`REGISTRY_INVALID`) for another type or form
 */
export function readManifest(what: string, bytes: Buffer, artifactType: string): OciManifest {
  const document = readJson(what, bytes);
  const { artifactType: found, layers, subject } = document;
  if (found !== artifactType) throw invalidContent(what, `its type is ${JSON.stringify(found)}, not ${artifactType}`);
  if (!Array.isArray(layers) || layers.length === 0 || layers.length > registryLimits.layersMax)
    throw invalidContent(what, `it must have 1 to ${registryLimits.layersMax} layers`);
  return {
    artifactType,
    layers: layers.map((layer) => readDescriptor(what, layer)),
    ...(subject === undefined ? {} : { subject: readDescriptor(what, subject) }),
  };
}

/**
 * The type of a release's document.
 * @throws RegistryFailure (`REGISTRY_INVALID`) for another type or form
 */
export function releaseTypeOf(what: string, bytes: Buffer): string {
  const { artifactType } = readJson(what, bytes);
  if (artifactType === mediaTypes.release || artifactType === mediaTypes.releaseIndex) return artifactType;
  const known = `${mediaTypes.release} or ${mediaTypes.releaseIndex}`;
  throw invalidContent(what, `its type is ${JSON.stringify(artifactType)?.slice(0, 200)}, not ${known}`);
}

interface ReleaseIndex {
  readonly shared: OciDescriptor;
  readonly profiles: readonly OciDescriptor[];
}

/**
 * Parses the index of a release whose digest was verified.
 * @throws RegistryFailure (`REGISTRY_INVALID`)
 */
export function readReleaseIndex(what: string, bytes: Buffer): ReleaseIndex {
  const entries = readIndex(what, bytes);
  if (entries.length > registryLimits.layersMax)
    throw invalidContent(what, `it has more than ${registryLimits.layersMax} manifests`);
  const manifests = entries.map((entry) => readDescriptor(what, entry));
  const [shared, another] = manifests.filter(({ artifactType }) => artifactType === mediaTypes.shared);
  if (shared === undefined || another !== undefined)
    throw invalidContent(what, 'it must have one manifest of the shared files');
  const profiles = manifests.filter(({ artifactType }) => artifactType === mediaTypes.profile);
  return { shared, profiles };
}

/**
 * The serial that the index of a release names, for display: `release.yaml` decides.
 * @returns 0 where it names none
 * @throws RegistryFailure (`REGISTRY_INVALID`)
 */
export function serialOf(what: string, bytes: Buffer): number {
  const { annotations } = readJson(what, bytes);
  return Number((annotations as Record<string, unknown> | undefined)?.[serialKey] ?? 0) || 0;
}

/**
 * Parses the list of referrers, an image index.
 * @returns its unverified entries: the registry lists what anyone has pushed
 * @throws RegistryFailure (`REGISTRY_INVALID`)
 */
export function readIndex(what: string, bytes: Buffer): readonly unknown[] {
  const { manifests } = readJson(what, bytes);
  if (!Array.isArray(manifests)) throw invalidContent(what, 'it has no list of manifests');
  return manifests;
}

/**
 * What a manifest or an index needs: its configuration, layers and manifests.
 * @throws RegistryFailure (`REGISTRY_INVALID`)
 */
export function referencesOf(what: string, bytes: Buffer): readonly OciDescriptor[] {
  const { config, layers, manifests } = readJson(what, bytes);
  const all = [config === undefined ? [] : [config], layers ?? [], manifests ?? []].flat();
  return all.map((entry) => readDescriptor(what, entry));
}

/** Prints an image index. @param more its `artifactType` and annotations */
export function printIndex(
  manifests: readonly unknown[],
  { artifactType, annotations }: Partial<Pick<OciManifest, 'artifactType' | 'annotations'>> = {},
): Buffer {
  const document = { schemaVersion: 2, mediaType: mediaTypes.index, artifactType, manifests, annotations };
  return Buffer.from(`${JSON.stringify(document)}\n`);
}

function readJson(what: string, bytes: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw invalidContent(what, 'it is not a JSON object');
}

/** @throws RegistryFailure (`REGISTRY_INVALID`), for example for a digest other than SHA-256 */
export function readDescriptor(what: string, value: unknown): OciDescriptor {
  const { mediaType, digest, size, artifactType, annotations, data } = (value ?? {}) as Record<string, unknown>;
  if (typeof mediaType !== 'string' || !isDigest(digest) || !Number.isSafeInteger(size) || (size as number) < 0)
    throw invalidContent(what, 'it contains a descriptor without media type, SHA-256 digest or size');
  const texts = Object.entries((annotations ?? {}) as Record<string, unknown>).filter(
    (pair): pair is [string, string] => typeof pair[1] === 'string',
  );
  return {
    mediaType,
    digest,
    size: size as number,
    ...(typeof artifactType === 'string' ? { artifactType } : {}),
    ...(texts.length > 0 ? { annotations: Object.fromEntries(texts) } : {}),
    ...(typeof data === 'string' ? { data } : {}),
  };
}
