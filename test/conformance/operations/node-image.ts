import { tagVersion } from '../../../tools/version.ts';
import { nodePackages, unpacked } from '../debian.ts';
import { ctr } from '../node.ts';
import type { SystemPlace } from '../systems.ts';
import { fileOf, packages } from './packages.ts';

const [start, ending] = ['sluice-node-', '-image.tar'];

/** The archive of an image. */
interface NodeImage {
  readonly archive: string;
}

/** The image of a node among the packages of this checkout, or the reason why they cannot be built here. */
export async function nodeImage(): Promise<NodeImage | { readonly lack: string }> {
  const made = await packages();
  return 'lack' in made ? made : { archive: fileOf(made.folder, start, ending) };
}

/** Places the image on each node, as a registry would, and says its name. */
export async function placeImage({ nodes }: SystemPlace, archive: string): Promise<string> {
  const debian = await unpacked(nodePackages, false);
  const name = 'registry.example.com/sluice-node';
  const tag = tagVersion(archive.slice(archive.lastIndexOf(start) + start.length, -ending.length));
  const argv = [...ctr(debian), 'images', 'import', '--base-name', name, archive];
  for (const host of nodes.values()) await host.run(argv, { timeoutMs: 300_000 });
  return `${name}:${tag}`;
}
