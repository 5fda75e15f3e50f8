import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { tagVersion } from '../../../tools/version.ts';
import { nodePackages, unpacked } from '../debian.ts';
import { ctr } from '../node.ts';
import type { SystemPlace } from '../systems.ts';

const root = join(import.meta.dirname, '../../..');
const version = '0.2.0';
const ending = '-image.tar';

/** The archive of an image. */
interface NodeImage {
  readonly archive: string;
}

let built: Promise<NodeImage | { readonly lack: string }> | undefined;

/** The image of a node as `./dev package` makes it of this checkout, or that of `SLUICE_PACKAGES`; or the reason why it cannot be built here. */
export const nodeImage = (): Promise<NodeImage | { readonly lack: string }> => (built ??= buildImage());

async function buildImage(): Promise<NodeImage | { readonly lack: string }> {
  const given = process.env['SLUICE_PACKAGES'];
  if (given !== undefined) return { archive: imageIn(given) };
  const folder = mkdtempSync(join(tmpdir(), 'sluice-image-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const argv = [join(root, 'tools/package.ts'), '-o', join(folder, 'release'), '--arch', 'x64', '--no-cli'];
  const { failed, stderr } = await execa(process.execPath, argv, { env: { SLUICE_VERSION: version }, reject: false });
  if (!failed) return { archive: imageIn(join(folder, 'release')) };
  return { lack: stderr.split('\n').find((line) => line.startsWith('package: ')) ?? stderr.slice(-300) };
}

function imageIn(folder: string): string {
  const name = readdirSync(folder).find((one) => one.startsWith('sluice-node-') && one.endsWith(ending));
  if (name === undefined) throw new Error(`${folder} has no image of a node`);
  return join(folder, name);
}

/** Places the image on each node, as a registry would, and says its name. */
export async function placeImage({ nodes }: SystemPlace, archive: string): Promise<string> {
  const debian = await unpacked(nodePackages, false);
  const name = 'registry.example.com/sluice-node';
  const tag = tagVersion(archive.slice(archive.lastIndexOf('sluice-node-') + 'sluice-node-'.length, -ending.length));
  const argv = [...ctr(debian), 'images', 'import', '--base-name', name, archive];
  for (const host of nodes.values()) await host.run(argv, { timeoutMs: 300_000 });
  return `${name}:${tag}`;
}
