import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BlobDescriptor } from '../../tools/package/image.ts';
import { packages, scratch } from './unpack.fixture.ts';

/** The reason why there are no images here; empty if there are. */
export const noImagesBecause = packages.whyNot || packages.noImages;

export interface PlatformDescriptor extends BlobDescriptor {
  readonly platform?: { readonly architecture: string; readonly os: string };
}

/** An unpacked layout: the descriptors of its images, and a way to their files. */
export class ImageLayout {
  private readonly layout = scratch();

  constructor(tar: string) {
    execFileSync('tar', ['-xf', tar, '-C', this.layout]);
  }

  /** By architecture. */
  get manifests(): ReadonlyMap<string, PlatformDescriptor> {
    const index = JSON.parse(readFileSync(join(this.layout, 'index.json'), 'utf8')) as Index;
    const [named] = index.manifests;
    if (index.manifests.length !== 1) throw new Error('the layout has several images');
    const all = named.platform ? [named] : (this.json(named) as Index).manifests;
    return new Map(all.map((one) => [one.platform?.architecture ?? '', one]));
  }

  /** Unpacks the one layer of a platform into a new folder. */
  unpack(architecture: string): string {
    const { layers } = this.json(this.manifests.get(architecture) as BlobDescriptor) as { layers: [BlobDescriptor] };
    if (layers.length !== 1) throw new Error('the image has several layers');
    const root = join(scratch(), 'root');
    mkdirSync(root);
    execFileSync('tar', ['-xz', '-C', root], { input: this.blob(layers[0]) });
    return root;
  }

  /** The configuration of a platform. */
  config(architecture: string): ImageConfig {
    const { config } = this.json(this.manifests.get(architecture) as BlobDescriptor) as { config: BlobDescriptor };
    return this.json(config) as ImageConfig;
  }

  private json(descriptor: BlobDescriptor): unknown {
    return JSON.parse(this.blob(descriptor).toString());
  }

  private blob({ digest, size }: BlobDescriptor): Buffer {
    const bytes = readFileSync(join(this.layout, 'blobs', digest.replace(':', '/')));
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    if (bytes.length !== size || `sha256:${sha256}` !== digest) throw new Error(`blob ${digest} is not what it says`);
    return bytes;
  }
}

/** The fields that tests read. */
export interface ImageConfig {
  readonly architecture: string;
  readonly config: {
    readonly User: string;
    readonly Entrypoint: readonly string[];
    readonly Env: readonly string[];
  };
}

interface Index {
  readonly manifests: readonly [PlatformDescriptor];
}

/** Runs its arguments below $0 as a runtime does: with a network, mounts and a root of its own. */
const container = `
mount --make-rprivate /
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/urandom c 1 9
mkdir -p run/before
pivot_root . run/before
exec "$@"`;

/** The output of a shell script of the image, in namespaces that end with it. @throws when a command of it fails */
export function runIn(root: string, env: readonly string[], script: string): string {
  const argv = ['--net', '--mount', '--', 'sh', '-ec', container, root, '/bin/sh', '-ec', script];
  const environment = Object.fromEntries(env.map((line) => line.split('=', 2) as [string, string]));
  return execFileSync('unshare', argv, {
    encoding: 'utf8',
    env: { ...environment, PATH: `${environment['PATH']}:/sbin:/bin` },
  });
}
