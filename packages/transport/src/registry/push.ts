import { compareText } from '@sluice/netfilter';
import { isOpeningFile, isSignatureFile, printArchive, profileIn, type Release } from '@sluice/bundle';
import {
  type OciDescriptor,
  descriptorOf,
  emptyConfig,
  mediaTypes,
  printManifest,
  profileKey,
  titleKey,
} from './artifact.ts';
import { pushBlob, pushManifest } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { pushReferrer } from './referrers.ts';

interface Pushed {
  /** The digest of the manifest, for `sluice pull`. */
  readonly digest: string;
  readonly layers: number;
  /** The number of layers that the registry did not have. */
  readonly sent: number;
  readonly attachments: number;
}

/**
 * Pushes a release, then its signatures, which refer to it. Pushing again sends only what is new.
 * @param files path → text of all of its files
 */
export async function pushRelease(
  client: RegistryClient,
  release: Release,
  files: ReadonlyMap<string, string>,
  tag: string,
): Promise<Pushed> {
  await pushBlob(client, descriptorOf(mediaTypes.empty, emptyConfig), emptyConfig);
  const layers: OciDescriptor[] = [];
  let sent = 0;
  for (const { annotations, part } of partsOf(files)) {
    const bytes = printArchive({ files: part });
    const layer = descriptorOf(mediaTypes.archive, bytes, annotations);
    if (await pushBlob(client, layer, bytes)) sent++;
    layers.push(layer);
  }
  const manifest = printManifest({
    artifactType: mediaTypes.release,
    layers,
    annotations: { 'dev.sluice.cluster': release.cluster, 'dev.sluice.serial': String(release.serial) },
  });
  await pushManifest(client, tag, mediaTypes.manifest, manifest);
  const subject = descriptorOf(mediaTypes.manifest, manifest);
  const attachments = attachmentsOf(files);
  for (const { type, names } of attachments) await attach(client, subject, type, names, files);
  return { digest: subject.digest, layers: layers.length, sent, attachments: attachments.length };
}

interface LayerPart {
  readonly annotations: Readonly<Record<string, string>>;
  readonly part: ReadonlyMap<string, string>;
}

/** The shared files, then the files of each profile. */
function partsOf(files: ReadonlyMap<string, string>): readonly LayerPart[] {
  const profiles = Map.groupBy(
    [...files].filter(([path]) => !isSignatureFile(path) && !isOpeningFile(path)),
    ([path]) => profileIn(path),
  );
  return [...profiles]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([profile, entries]) => ({
      annotations: { [titleKey]: `${profile || 'release'}.tar.zst`, ...(profile ? { [profileKey]: profile } : {}) },
      part: new Map(entries),
    }));
}

interface Attachment {
  readonly type: string;
  readonly names: readonly string[];
}

function attachmentsOf(files: ReadonlyMap<string, string>): readonly Attachment[] {
  const names = [...files.keys()].toSorted(compareText);
  const opening = names.filter(isOpeningFile);
  return [
    ...names.filter(isSignatureFile).map((name) => ({ type: mediaTypes.signature, names: [name] })),
    ...(opening.length > 0 ? [{ type: mediaTypes.opening, names: opening }] : []),
  ];
}

async function attach(
  client: RegistryClient,
  subject: OciDescriptor,
  type: string,
  names: readonly string[],
  files: ReadonlyMap<string, string>,
): Promise<void> {
  const layers: OciDescriptor[] = [];
  for (const name of names) {
    const bytes = Buffer.from(files.get(name) as string, 'latin1');
    const layer = descriptorOf(type, bytes, { [titleKey]: name });
    await pushBlob(client, layer, bytes);
    layers.push(layer);
  }
  await pushReferrer(client, subject, type, printManifest({ artifactType: type, layers, subject }));
}
