import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect } from 'vitest';
import type { BlobDescriptor } from '../../tools/package/image.ts';
import { user } from '../../tools/package/image-root.ts';
import { artefact, packages, scratch } from './unpack.fixture.ts';

/** The reason why the image cannot be unpacked here; empty if it can. */
export const noImageBecause = packages.whyNot || (process.getuid?.() === 0 ? '' : 'chroot needs root');

/** The fields of the image's configuration that tests read. */
export interface ImageConfig {
  readonly User: string;
  readonly Entrypoint: readonly string[];
  readonly Env: readonly string[];
}

export interface UnpackedImage {
  readonly layers: readonly BlobDescriptor[];
  readonly config: ImageConfig;
  /** The files of its layer, with the devices that a container runtime provides. */
  readonly root: string;
}

/** Unpacks the image below a folder that ends with the test. */
export function unpackImage(): UnpackedImage {
  const layout = scratch();
  execaSync('tar', ['-xf', artefact('-image-amd64.tar'), '-C', layout]);
  const index = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')) as { manifests: [BlobDescriptor] };
  const manifest = JSON.parse(blob(layout, index.manifests[0]).toString()) as {
    readonly config: BlobDescriptor;
    readonly layers: readonly [BlobDescriptor];
  };
  const { config } = JSON.parse(blob(layout, manifest.config).toString()) as { config: ImageConfig };
  const root = join(layout, 'root');
  mkdirSync(root);
  execaSync('tar', ['-xz', '-C', root], { input: blob(layout, manifest.layers[0]) });
  for (const [name, minor] of [
    ['null', '3'],
    ['urandom', '9'],
  ] as const)
    execaSync('mknod', ['-m', '666', join(root, 'dev', name), 'c', '1', minor]);
  return { layers: manifest.layers, config, root };
}

/** A blob whose size and digest are what its descriptor says. */
function blob(layout: string, { digest, size }: BlobDescriptor): Buffer {
  const bytes = readFileSync(join(layout, 'blobs', digest.replace(':', '/')));
  expect({ size: bytes.length, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}` }).toEqual({
    size,
    digest,
  });
  return bytes;
}

/** The command that starts a program of the image as the image's user, with the environment of the image and more. */
export function inImage(
  { root, config }: UnpackedImage,
  argv: readonly string[],
  more: Readonly<Record<string, string>> = {},
): readonly [
  file: string,
  args: readonly string[],
  options: { readonly env: Record<string, string>; readonly extendEnv: false },
] {
  const environment = Object.fromEntries(config.Env.map((line) => line.split('=', 2) as [string, string]));
  const options = { env: { ...environment, ...more }, extendEnv: false } as const;
  return ['/usr/sbin/chroot', [`--userspec=${user}:${user}`, root, ...argv], options];
}
