/** OCI images, each as an image layout in a tar file, which skopeo, podman, crane and containerd read. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { tarContents } from './archive.ts';
import type { PackageRelease } from './deb.ts';
import { tagVersion } from '../version.ts';
import { withoutClock } from './tree.ts';

/** The reference to a blob in a manifest. */
export interface BlobDescriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** What an image is for one architecture: one layer and its configuration. */
export interface Platform {
  /** Such as amd64. */
  readonly architecture: string;
  /** The folder with the files of the layer. */
  readonly root: string;
  /** Empty world-writable folders in it. */
  readonly open: readonly string[];
  /** How a container starts: `config` of the image's configuration. */
  readonly config: object;
  /** The system that its tools are from. */
  readonly base: string;
}

export const types = {
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
  config: 'application/vnd.oci.image.config.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
} as const;

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/**
 * Writes an image layout as a tar file. Several platforms are behind one index, which is the one image of the layout: tools that copy an
 * image by its name copy all.
 * @param work a folder for intermediate files, which is removed
 */
export function writeImage(
  title: string,
  platforms: readonly Platform[],
  work: string,
  release: PackageRelease,
  file: string,
): void {
  const layout = join(work, 'layout');
  const manifests = platforms.map((platform) => manifestBlob(title, platform, work, layout, release));
  const [first] = manifests;
  const named =
    first !== undefined && manifests.length === 1 ? first : addBlob(layout, types.index, json(indexOf(manifests)));
  writeLayout(layout, named, tagVersion(release.version), release, file);
  rmSync(work, { recursive: true });
}

/**
 * Completes a folder with blobs as an image layout, and writes it as a tar file.
 * @param named the manifest or index that the layout is of
 * @param tag its name
 */
export function writeLayout(
  layout: string,
  named: BlobDescriptor,
  tag: string,
  release: PackageRelease,
  file: string,
): void {
  const annotations = { 'org.opencontainers.image.ref.name': tag };
  writeFileSync(join(layout, 'oci-layout'), json({ imageLayoutVersion: '1.0.0' }));
  writeFileSync(join(layout, 'index.json'), json(indexOf([{ ...named, annotations }])));
  tarContents(layout, release.epoch, file);
}

function manifestBlob(
  title: string,
  platform: Platform,
  work: string,
  layout: string,
  release: PackageRelease,
): BlobDescriptor & { readonly platform: { readonly architecture: string; readonly os: string } } {
  const { architecture, root, open, base } = platform;
  mkdirSync(work, { recursive: true });
  tarContents(root, release.epoch, join(work, 'layer.tar'), open);
  const layerTar = readFileSync(join(work, 'layer.tar'));
  const layer = addBlob(layout, types.layer, withoutClock(gzipSync(layerTar)));
  const config = addBlob(layout, types.config, json(configOf(digestOf(layerTar), platform, title, release)));
  const manifest = {
    schemaVersion: 2,
    mediaType: types.manifest,
    config,
    layers: [layer],
    annotations: {
      'org.opencontainers.image.title': title,
      'org.opencontainers.image.version': release.version,
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.base.name': base,
    },
  };
  return { ...addBlob(layout, types.manifest, json(manifest)), platform: { architecture, os: 'linux' } };
}

export const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));
const created = ({ epoch }: PackageRelease): string => new Date(epoch * 1000).toISOString();

/** Adds bytes to the blobs of a layout. */
export function addBlob(layout: string, mediaType: string, bytes: Buffer): BlobDescriptor {
  const folder = join(layout, 'blobs/sha256');
  mkdirSync(folder, { recursive: true });
  const digest = digestOf(bytes);
  writeFileSync(join(folder, digest), bytes);
  return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
}

const configOf = (
  diffId: string,
  { architecture, config }: Platform,
  title: string,
  release: PackageRelease,
): object => ({
  architecture,
  os: 'linux',
  created: created(release),
  config,
  rootfs: { type: 'layers', diff_ids: [`sha256:${diffId}`] },
  history: [{ created: created(release), comment: `${title} ${release.version}` }],
});

const indexOf = (manifests: readonly object[]): object => ({
  schemaVersion: 2,
  mediaType: types.index,
  manifests,
});
