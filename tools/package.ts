/** `./dev package`: builds all files of a release in dist/release. The same commit gives the same bytes. */
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { buildArchive } from './package/archive.ts';
import { buildDeb, type PackageRelease } from './package/deb.ts';
import { buildExecutable } from './package/executable.ts';
import { buildImage } from './package/image.ts';
import { type Arch, archNames, libatomic, nodeBinary } from './package/node.ts';
import { buildNodeImage, layOutPlatform, type NodePlatform } from './package/node-image/build.ts';
import { suite } from './package/node-image/fetch.ts';
import { licenceTexts } from './package/licences.ts';
import { PackageError, requireTools, run } from './package/run.ts';
import { billOfMaterials, type Native } from './package/sbom.ts';
import { layOut, licences } from './package/tree.ts';
import { buildVersion } from './version.ts';

const root = join(import.meta.dirname, '..');

/** Executable → tree → packages, one architecture after the other; then the image of nodes, the SBOM and the sums. */
async function main(): Promise<void> {
  const { archs, target, nodeImage } = readOptions();
  requireTools();
  const release = { version: buildVersion(root), epoch: epoch() };
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const work = mkdtempSync(join(target, '.work-'));
  try {
    await buildAll(archs, nodeImage, release, work, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function buildAll(
  archs: readonly Arch[],
  nodeImage: boolean,
  release: PackageRelease,
  work: string,
  target: string,
): Promise<void> {
  const texts = licenceTexts(root, read('pnpm-lock.yaml'), thisArch());
  const platforms: NodePlatform[] = [];
  for (const arch of archs) {
    const [executables, tree] = [join(work, arch), join(work, `${arch}.tree`)];
    await buildExecutable(root, arch, executables, release.version);
    mkdirSync(dirname(join(executables, licences)), { recursive: true });
    writeFileSync(join(executables, licences), texts);
    chmodSync(join(executables, licences), 0o644);
    layOut(root, executables, tree);
    say(target, buildDeb(root, tree, arch, release, target));
    say(target, buildArchive(root, tree, arch, release, target));
    if (arch === process.arch) say(target, buildImage(executables, join(work, 'image'), release, target));
    if (nodeImage) platforms.push(layOutPlatform(tree, arch, join(work, `${arch}.node-image`)));
    rmSync(tree, { recursive: true });
  }
  if (nodeImage) say(target, buildNodeImage(platforms, join(work, 'node-image'), release, target));
  const list = `sluice-${release.version}.cdx.json`;
  writeFileSync(
    join(target, list),
    billOfMaterials(read('pnpm-lock.yaml'), release.version, [...natives(archs), ...platforms.flatMap(debianParts)]),
  );
  say(target, list);
  writeFileSync(join(target, 'SHA256SUMS'), sums(target));
}

function readOptions(): { readonly archs: readonly Arch[]; readonly target: string; readonly nodeImage: boolean } {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: archNames.join(',') },
      output: { type: 'string', short: 'o' },
      // Its tools are fetched, which needs a network.
      'node-image': { type: 'boolean', default: true },
    },
    allowNegative: true,
  });
  const archs = values.arch.split(',');
  const unknown = archs.find((arch) => !(archNames as readonly string[]).includes(arch));
  if (unknown !== undefined) {
    throw new PackageError(
      `Cannot build for ${unknown}: the architecture is not supported`,
      `Use ${archNames.join(' or ')}`,
    );
  }
  return {
    archs: archs as Arch[],
    target: resolve(values.output ?? join(root, 'dist/release')),
    nodeImage: values['node-image'],
  };
}

/** The architecture of the installed Node, whose licence texts are used. */
function thisArch(): Arch {
  const arch = archNames.find((name) => name === process.arch);
  if (arch !== undefined) return arch;
  throw new PackageError(
    `Cannot build on ${process.arch}: no Node for this architecture is installed`,
    `Build on ${archNames.join(' or ')}`,
  );
}

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const rootPackage = (): { optionalDependencies: Record<string, string> } =>
  JSON.parse(read('package.json')) as ReturnType<typeof rootPackage>;

/** The time of every file: SOURCE_DATE_EPOCH, or the time of the commit. */
function epoch(): number {
  const text = process.env['SOURCE_DATE_EPOCH'] ?? run('git', ['-C', root, 'log', '-1', '--format=%ct']).trim();
  if (/^\d{1,10}$/.test(text)) return Number(text);
  throw new PackageError(`Cannot use the time "${text}"`, 'Set SOURCE_DATE_EPOCH to seconds since 1970');
}

function natives(archs: readonly Arch[]): readonly Native[] {
  const sha256 = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');
  return archs.flatMap((arch) => {
    const name = `node-linux-${arch}`;
    const version = rootPackage().optionalDependencies[name] ?? '';
    const library = libatomic(arch);
    return [
      { name, version, purl: `pkg:npm/${name}@${version}`, sha256: sha256(nodeBinary(root, arch)) },
      { name: 'libatomic', version: '1', purl: `pkg:generic/libatomic@1?arch=${arch}`, sha256: sha256(library) },
    ];
  });
}

/** The packages of Debian inside the image of nodes. */
function debianParts({ debianArch, packages }: NodePlatform): readonly Native[] {
  return packages.map(({ name, version, sha256 }) => {
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${debianArch}&distro=${suite}`;
    return { name, version, purl, sha256 };
  });
}

/** For `sha256sum -c`. */
function sums(target: string): string {
  const digest = (name: string): string =>
    createHash('sha256')
      .update(readFileSync(join(target, name)))
      .digest('hex');
  return readdirSync(target)
    .filter((name) => !name.startsWith('.'))
    .toSorted()
    .map((name) => `${digest(name)}  ${name}\n`)
    .join('');
}

function say(target: string, name: string): void {
  const bytes = readFileSync(join(target, name)).length;
  process.stdout.write(`package: ${name} (${(bytes / 1e6).toFixed(1)} MB)\n`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof PackageError)) throw error;
  process.stderr.write(`package: ${error.message}\n  ${error.hint}\n`);
  process.exitCode = 2;
}
