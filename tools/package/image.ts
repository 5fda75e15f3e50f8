/** The OCI image of `sluice`, as an image layout in a tar file, which skopeo, podman, crane and containerd read. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { tarContents } from './archive.ts';
import type { PackageRelease } from './deb.ts';
import { layOutImage, takenFrom, user, writable } from './image-root.ts';

/** The reference to a blob in a manifest. */
export interface BlobDescriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/**
 * Writes sluice-VERSION-image-ARCH.tar and returns its name. It has one layer, and runs as a user that owns no file.
 * @param executables the folder that `buildExecutables` filled for the architecture of the build machine
 * @param work an empty folder for intermediate files
 */
export function buildImage(executables: string, work: string, release: PackageRelease, target: string): string {
  const [root, layout] = [join(work, 'root'), join(work, 'layout')];
  layOutImage(executables, root);
  tarContents(root, release.epoch, join(work, 'layer.tar'), writable);
  const layerTar = readFileSync(join(work, 'layer.tar'));
  const layer = blob(layout, 'application/vnd.oci.image.layer.v1.tar+gzip', anySystem(gzipSync(layerTar)));
  const config = blob(layout, 'application/vnd.oci.image.config.v1+json', json(configOf(digestOf(layerTar), release)));
  const manifest = blob(layout, 'application/vnd.oci.image.manifest.v1+json', json(manifestOf(config, layer, release)));
  writeFileSync(join(layout, 'oci-layout'), json({ imageLayoutVersion: '1.0.0' }));
  writeFileSync(join(layout, 'index.json'), json(indexOf(manifest, release)));
  const name = `sluice-${release.version}-image-${ociArch()}.tar`;
  tarContents(layout, release.epoch, join(target, name));
  rmSync(work, { recursive: true });
  return name;
}

/** Byte 9 of a gzip file is the operating system that wrote it. */
function anySystem(bytes: Buffer): Buffer {
  bytes[9] = 255;
  return bytes;
}

const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));
const ociArch = (): string => (process.arch === 'x64' ? 'amd64' : process.arch);
const created = ({ epoch }: PackageRelease): string => new Date(epoch * 1000).toISOString();

function blob(layout: string, mediaType: string, bytes: Buffer): BlobDescriptor {
  const folder = join(layout, 'blobs/sha256');
  mkdirSync(folder, { recursive: true });
  const digest = digestOf(bytes);
  writeFileSync(join(folder, digest), bytes);
  return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
}

const configOf = (diffId: string, release: PackageRelease): object => ({
  architecture: ociArch(),
  os: 'linux',
  created: created(release),
  config: {
    User: `${user}:${user}`,
    // The image has no templates of git (examples of hooks); without this git would warn at each clone.
    Env: ['PATH=/usr/bin', 'HOME=/work', 'LANG=C.UTF-8', 'GIT_TEMPLATE_DIR='],
    Entrypoint: ['/usr/bin/sluice'],
    WorkingDir: '/work',
  },
  rootfs: { type: 'layers', diff_ids: [`sha256:${diffId}`] },
  history: [{ created: created(release), comment: `sluice ${release.version}` }],
});

const manifestOf = (config: BlobDescriptor, layer: BlobDescriptor, release: PackageRelease): object => ({
  schemaVersion: 2,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  config,
  layers: [layer],
  annotations: {
    'org.opencontainers.image.title': 'sluice',
    'org.opencontainers.image.version': release.version,
    'org.opencontainers.image.licenses': 'Apache-2.0',
    'org.opencontainers.image.base.name': takenFrom(),
  },
});

const indexOf = (manifest: BlobDescriptor, release: PackageRelease): object => ({
  schemaVersion: 2,
  mediaType: 'application/vnd.oci.image.index.v1+json',
  manifests: [
    {
      ...manifest,
      platform: { architecture: ociArch(), os: 'linux' },
      annotations: { 'org.opencontainers.image.ref.name': release.version },
    },
  ],
});
