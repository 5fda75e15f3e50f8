import { isOpeningFile, isSignatureFile, printArchive, type Release } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import {
  type OciDescriptor,
  descriptorOf,
  emptyConfig,
  mediaTypes,
  nodesKey,
  printIndex,
  printManifest,
  profileKey,
  serialKey,
  titleKey,
} from '../registry/artifact.ts';
import { splitRelease } from './split.ts';

/** Bytes with their descriptor. */
export interface Packed {
  readonly descriptor: OciDescriptor;
  readonly bytes: Uint8Array;
}

/** A signature or an opening, which refers to a release. */
export interface PackedReferrer {
  readonly manifest: Packed;
  readonly blobs: readonly Packed[];
}

/** All documents of a release: packages/bundle/README.md, "In a registry or behind a web server". */
export interface PackedRelease {
  readonly index: Packed;
  readonly manifests: readonly Packed[];
  readonly blobs: readonly Packed[];
  readonly referrers: readonly PackedReferrer[];
}

type FileTexts = ReadonlyMap<string, string>;

/** The layers of the release before, by their place: those whose files have the same texts need not be packed again. */
export type LayerMemo = Map<number, { readonly files: FileTexts; readonly bytes: Uint8Array }>;

/**
 * Packs a release: the same files give the same bytes.
 * @param files path → text of all of its files; those of signatures and openings become referrers
 * @param memo of the release before; it then has this one
 */
export function packRelease(
  release: Pick<Release, 'cluster' | 'serial'>,
  files: FileTexts,
  memo: LayerMemo = new Map(),
): PackedRelease {
  const { shared, nodes, profiles } = splitRelease(files);
  const blobs: Packed[] = [packed(mediaTypes.empty, emptyConfig)];
  const manifests: Packed[] = [];
  const layer = (part: FileTexts, annotations?: Readonly<Record<string, string>>): OciDescriptor => {
    const before = memo.get(blobs.length);
    const bytes = before && areSame(before.files, part) ? before.bytes : printArchive({ files: part });
    memo.set(blobs.length, { files: part, bytes });
    const made = packed(mediaTypes.archive, bytes, annotations);
    blobs.push(made);
    return made.descriptor;
  };
  const add = (artifactType: string, layers: readonly OciDescriptor[], profile?: string): void => {
    const bytes = printManifest({ artifactType, layers });
    const annotations = profile === undefined ? {} : { annotations: { [profileKey]: profile } };
    const descriptor = { ...descriptorOf(mediaTypes.manifest, bytes), artifactType, ...annotations };
    manifests.push({ descriptor, bytes });
  };
  add(mediaTypes.shared, [
    ...shared.map((part) => layer(part)),
    ...nodes.map(({ bucket, files: part }) => layer(part, { [nodesKey]: bucket })),
  ]);
  for (const { profile, layers } of profiles)
    add(
      mediaTypes.profile,
      layers.map((part) => layer(part)),
      profile,
    );
  const bytes = printIndex(
    manifests.map(({ descriptor }) => descriptor),
    {
      artifactType: mediaTypes.releaseIndex,
      annotations: { 'dev.sluice.cluster': release.cluster, [serialKey]: String(release.serial) },
    },
  );
  const index = {
    descriptor: { ...descriptorOf(mediaTypes.index, bytes), artifactType: mediaTypes.releaseIndex },
    bytes,
  };
  return { index, manifests, blobs, referrers: referrersOf(files, descriptorOf(mediaTypes.index, bytes)) };
}

/** Texts that were not rendered again are the same strings, which are compared without reading them. */
function areSame(before: FileTexts, files: FileTexts): boolean {
  if (before.size !== files.size) return false;
  for (const [path, text] of files) if (before.get(path) !== text) return false;
  return true;
}

const packed = (type: string, bytes: Uint8Array, annotations?: Readonly<Record<string, string>>): Packed => ({
  descriptor: descriptorOf(type, bytes, annotations),
  bytes,
});

/** One for each signature, and one for the opening with its signature. */
function referrersOf(files: FileTexts, subject: OciDescriptor): readonly PackedReferrer[] {
  const names = [...files.keys()].toSorted(compareText);
  const opening = names.filter(isOpeningFile);
  return [
    ...names.filter(isSignatureFile).map((name) => referrer(mediaTypes.signature, [name], files, subject)),
    ...(opening.length > 0 ? [referrer(mediaTypes.opening, opening, files, subject)] : []),
  ];
}

function referrer(type: string, names: readonly string[], files: FileTexts, subject: OciDescriptor): PackedReferrer {
  const blobs = names.map((name) =>
    packed(type, Buffer.from(files.get(name) as string, 'latin1'), { [titleKey]: name }),
  );
  const layers = blobs.map(({ descriptor }) => descriptor);
  const bytes = printManifest({ artifactType: type, layers, subject });
  return {
    manifest: { descriptor: { ...descriptorOf(mediaTypes.manifest, bytes), artifactType: type }, bytes },
    blobs,
  };
}
