import { join } from 'node:path';
import { execaSync } from 'execa';
import { type ImageConfig, ImageLayout, noImagesBecause } from './layout.fixture.ts';
import { version } from './setup.ts';
import { artefact } from './unpack.fixture.ts';

/** The reason why the image of `sluice` cannot be unpacked here; empty if it can. */
export const noImageBecause = noImagesBecause || (process.getuid?.() === 0 ? '' : 'chroot needs root');

/** Its layout, for both architectures. */
export const openImage = (): ImageLayout => new ImageLayout(artefact(`sluice-${version}-image.tar`));

export interface UnpackedImage {
  readonly config: ImageConfig['config'];
  /** The files of its layer, with the devices that a container runtime provides. */
  readonly root: string;
}

/** Unpacks the image for amd64 below a folder that ends with the test. */
export function unpackImage(): UnpackedImage {
  const image = openImage();
  const root = image.unpack('amd64');
  for (const [name, minor] of [
    ['null', '3'],
    ['urandom', '9'],
  ] as const)
    execaSync('mknod', ['-m', '666', join(root, 'dev', name), 'c', '1', minor]);
  return { config: image.config('amd64').config, root };
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
  return ['/usr/sbin/chroot', [`--userspec=${config.User}`, root, ...argv], options];
}
