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

/**
 * Packs a release: the same files give the same bytes.
 * @param files path → text of all of its files; those of signatures and openings become referrers
 */
export function packRelease(release: Pick<Release, 'cluster' | 'serial'>, files: FileTexts): PackedRelease {
  const { shared, nodes, profiles } = splitRelease(files);
  const blobs: Packed[] = [packed(mediaTypes.empty, emptyConfig)];
  const manifests: Packed[] = [];
  const layer = (part: FileTexts, annotations?: Readonly<Record<string, string>>): OciDescriptor => {
    const made = packed(mediaTypes.archive, printArchive({ files: part }), annotations);
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
      annotations: { 'dev.sluice.cluster': release.cluster, 'dev.sluice.serial': String(release.serial) },
    },
  );
  const index = {
    descriptor: { ...descriptorOf(mediaTypes.index, bytes), artifactType: mediaTypes.releaseIndex },
    bytes,
  };
  return { index, manifests, blobs, referrers: referrersOf(files, descriptorOf(mediaTypes.index, bytes)) };
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
