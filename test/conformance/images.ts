import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { cacheFolder } from '../parity/build.ts';
import { agnhostPackages, busyboxPackages, unpacked } from './debian.ts';
import type { Programs } from './programs.ts';

/** An image of one layer. */
export interface Image {
  /** Under which the tests ask for it. */
  readonly names: readonly string[];
  /** The folder that becomes its root. */
  readonly root: string;
  readonly entrypoint: readonly string[];
  readonly arguments?: readonly string[];
  readonly exposed?: readonly number[];
}

const testImages = 'registry.k8s.io/e2e-test-images';

/**
 * The images of the tests, with the programs of their release, as an archive that `ctr images import` reads: nothing is pulled.
 * nginx is agnhost's own web server; in their place in the tests it answers on port 80 and nothing else is asked of it.
 * @returns paths of archives
 */
export async function imageArchives(programs: Programs, names: ImageNames): Promise<readonly string[]> {
  const kinds = ['agnhost', 'busybox', 'boom'] as const;
  const key = createHash('sha256')
    .update(JSON.stringify([programs.agnhost, kinds, names, agnhostPackages, certificateName]))
    .digest('hex');
  const folder = join(cacheFolder, `images-${key.slice(0, 12)}`);
  const paths = kinds.map((kind) => join(folder, `${kind}.tar`));
  if (paths.every((path) => existsSync(path))) return paths;
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  const roots = {
    agnhost: await agnhostRoot(programs, part),
    busybox: await busyboxRoot(part),
    boom: boomRoot(programs, part),
  };
  const tagged = (name: keyof ImageNames): string[] => names[name].map((tag) => `${testImages}/${name}:${tag}`);
  const web = { entrypoint: ['/agnhost'], arguments: ['test-webserver'], exposed: [80] };
  const images: Readonly<Record<(typeof kinds)[number], readonly Image[]>> = {
    agnhost: [
      { names: tagged('agnhost'), root: roots.agnhost, entrypoint: ['/agnhost'], arguments: ['pause'] },
      { names: tagged('nginx'), root: roots.agnhost, ...web },
      {
        names: names.pause.map((tag) => `registry.k8s.io/pause:${tag}`),
        root: roots.agnhost,
        entrypoint: ['/agnhost', 'pause'],
      },
      {
        names: names.iptables.map((tag) => `registry.k8s.io/build-image/distroless-iptables:${tag}`),
        root: roots.agnhost,
        entrypoint: [],
      },
    ],
    busybox: [{ names: tagged('busybox'), root: roots.busybox, entrypoint: [], arguments: ['sh'] }],
    boom: [{ names: tagged('regression-issue-74839'), root: roots.boom, entrypoint: [`/${boomName}`] }],
  };
  for (const kind of kinds) await writeArchive(images[kind], join(part, kind), join(part, `${kind}.tar`));
  for (const kind of kinds) rmSync(join(part, kind), { recursive: true, force: true });
  rmSync(folder, { recursive: true, force: true });
  renameSync(part, folder);
  return paths;
}

const boomName = 'regression-issue-74839';

/** The tags of images that a release of the tests asks for. */
export interface ImageNames {
  readonly agnhost: readonly string[];
  readonly busybox: readonly string[];
  readonly nginx: readonly string[];
  readonly pause: readonly string[];
  readonly iptables: readonly string[];
  readonly [boomName]: readonly string[];
}

/** The tags in what `network.test -list-images` prints. */
export function imageNames(listed: string): ImageNames {
  const tagsOf = (name: string): readonly string[] => [
    ...new Set(
      [...listed.matchAll(new RegExp(`^registry\\.k8s\\.io/(?:[a-z0-9-]+/)?${name}:(\\S+)$`, 'gm'))].map(
        ([, tag = '']) => tag,
      ),
    ),
  ];
  return {
    agnhost: tagsOf('agnhost'),
    busybox: tagsOf('busybox'),
    nginx: tagsOf('nginx'),
    pause: tagsOf('pause'),
    iptables: tagsOf('distroless-iptables'),
    [boomName]: tagsOf(boomName),
  };
}

/** Of what agnhost serves by TLS, which no client of the tests checks. */
const certificateName = 'localhost';
const notAfter = new Date('2099-12-31T00:00:00Z');

async function agnhostRoot(programs: Programs, part: string): Promise<string> {
  const root = join(part, 'agnhost-root');
  await execa('cp', ['-a', await unpacked(agnhostPackages, true), root]);
  copyFileSync(programs.agnhost, join(root, 'agnhost'));
  chmodSync(join(root, 'agnhost'), 0o755);
  symlinkSync('agnhost', join(root, 'agnhost-2'));
  const { certificate, key } = makeAuthority(certificateName, notAfter).issue(certificateName, notAfter);
  writeFileSync(join(root, 'localhost.crt'), certificate);
  writeFileSync(join(root, 'localhost.key'), key);
  for (const folder of ['uploads', 'tmp', 'etc', 'run', 'proc', 'sys', 'dev'])
    mkdirSync(join(root, folder), { recursive: true });
  chmodSync(join(root, 'tmp'), 0o1777);
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n');
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\nnogroup:x:65534:\n');
  // Debian chooses the tools of iptables by links that a script of the package makes.
  for (const tool of ['iptables', 'ip6tables'])
    for (const suffix of ['', '-save', '-restore'])
      linkIfMissing(`${tool}-nft${suffix}`, join(root, 'usr/sbin', `${tool}${suffix}`));
  linkIfMissing('nc.openbsd', join(root, 'bin/nc'));
  return root;
}

async function busyboxRoot(part: string): Promise<string> {
  const root = join(part, 'busybox-root');
  await execa('cp', ['-a', await unpacked(busyboxPackages, false), root]);
  for (const folder of ['etc', 'tmp', 'proc', 'sys', 'dev']) mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
  const { stdout } = await execa(join(root, 'bin/busybox'), ['--list']);
  for (const name of stdout.split('\n')) linkIfMissing('busybox', join(root, 'bin', name));
  return root;
}

/** A server that sends segments outside of the window: https://github.com/kubernetes/kubernetes/issues/74839 */
function boomRoot(programs: Programs, part: string): string {
  const root = join(part, 'boom-root');
  mkdirSync(root);
  copyFileSync(programs[boomName], join(root, boomName));
  chmodSync(join(root, boomName), 0o755);
  return root;
}

function linkIfMissing(target: string, path: string): void {
  if (!existsSync(path) && existsSync(join(dirname(path), target))) symlinkSync(target, path);
}

const layerType = 'application/vnd.oci.image.layer.v1.tar';

/** An archive in the layout of https://github.com/opencontainers/image-spec/blob/main/image-layout.md. One root is one layer of all its images. */
async function writeArchive(images: readonly Image[], folder: string, path: string): Promise<void> {
  const blobs = join(folder, 'blobs/sha256');
  mkdirSync(blobs, { recursive: true });
  const blob = (content: string): { digest: string; size: number } => {
    const digest = createHash('sha256').update(content).digest('hex');
    writeFileSync(join(blobs, digest), content);
    return { digest: `sha256:${digest}`, size: Buffer.byteLength(content) };
  };
  const layers = new Map<string, { digest: string; size: number }>();
  const layerOf = async (root: string): Promise<{ digest: string; size: number }> => {
    const known = layers.get(root);
    if (known !== undefined) return known;
    const file = join(folder, 'layer');
    const fixed = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
    await execa('tar', [...fixed, '-C', root, '-cf', file, '.']);
    const { stdout } = await execa('sha256sum', [file]);
    const [digest = ''] = stdout.split(' ');
    const layer = { digest: `sha256:${digest}`, size: statSync(file).size };
    renameSync(file, join(blobs, digest));
    layers.set(root, layer);
    return layer;
  };
  const manifests: object[] = [];
  for (const image of images) {
    const layer = await layerOf(image.root);
    const config = {
      architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
      os: 'linux',
      config: {
        Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
        Entrypoint: image.entrypoint,
        Cmd: image.arguments ?? [],
        ExposedPorts: Object.fromEntries((image.exposed ?? []).map((port) => [`${port}/tcp`, {}])),
      },
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
    };
    const manifest = {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...blob(JSON.stringify(config)) },
      layers: [{ mediaType: layerType, ...layer }],
    };
    const written = blob(JSON.stringify(manifest));
    for (const name of image.names)
      manifests.push({ mediaType: manifest.mediaType, ...written, annotations: { 'io.containerd.image.name': name } });
  }
  writeFileSync(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  writeFileSync(join(folder, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
  await execa('tar', ['-C', folder, '-cf', path, 'oci-layout', 'index.json', 'blobs']);
}
