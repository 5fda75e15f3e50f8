/** `./dev package`: builds all files of a release in dist/release. The same commit gives the same bytes. */
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { buildAptRepository } from './package/apt.ts';
import { buildArchive } from './package/archive.ts';
import { buildChart } from './package/chart.ts';
import { buildCliArchive } from './package/cli-archive.ts';
import { buildDeb, type PackageRelease } from './package/deb.ts';
import { buildExecutable, filesBelow } from './package/executable.ts';
import { brewFormula, type CliArchive, krewManifest } from './package/manifests.ts';
import { type Arch, archNames, libatomic, nodeBinary, nodePackage, systems } from './package/node.ts';
import { buildImages, type ImageParts, layOutImages } from './package/images/build.ts';
import { suite } from './package/images/fetch.ts';
import { licenceTexts } from './package/licences.ts';
import { buildNpmPackage } from './package/npm.ts';
import { provenance } from './package/provenance.ts';
import { buildRpm, buildRpmRepository } from './package/rpm.ts';
import { PackageError, requireTools, run } from './package/run.ts';
import { billOfMaterials, type Native } from './package/sbom.ts';
import { type Signer, signerOf } from './package/sign.ts';
import { layOut, licences } from './package/tree.ts';
import { nodeFlags, nodePrograms } from './bundle.ts';
import { buildVersion } from './version.ts';

const root = join(import.meta.dirname, '..');

/** Executable → tree → packages, one architecture after the other; then the images, the SBOM and the sums. */
async function main(): Promise<void> {
  const options = readOptions();
  const { target } = options;
  requireTools();
  const release = { version: buildVersion(root), epoch: epoch() };
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const work = mkdtempSync(join(target, '.work-'));
  try {
    await buildAll(options, release, work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function buildAll(options: Options, release: PackageRelease, work: string): Promise<void> {
  const { archs, target, signer } = options;
  const texts = licenceTexts(root, read('pnpm-lock.yaml'), thisArch());
  const parts: ImageParts[] = [];
  const archives: CliArchive[] = [];
  for (const arch of archs) {
    const [executables, tree] = [join(work, arch), join(work, `${arch}.tree`)];
    await buildExecutable(root, arch, executables, release.version);
    mkdirSync(dirname(join(executables, licences)), { recursive: true });
    writeFileSync(join(executables, licences), texts);
    chmodSync(join(executables, licences), 0o644);
    layOut(root, executables, tree);
    say(target, buildDeb(root, tree, arch, release, target));
    say(target, buildRpm(root, tree, arch, release, target));
    say(target, buildArchive(root, tree, arch, release, target));
    if (options.cli) archives.push(...(await buildCliArchives(tree, arch, release, target)));
    if (options.images) {
      const ofNode = join(work, `${arch}.node`);
      await buildExecutable(root, arch, ofNode, release.version, nodePrograms, nodeFlags);
      parts.push(layOutImages(tree, ofNode, arch, join(work, `${arch}.images`)));
    }
    rmSync(tree, { recursive: true });
  }
  if (options.images) for (const name of buildImages(parts, join(work, 'images'), release, target)) say(target, name);
  say(target, await buildNpmPackage(root, texts, join(work, 'npm'), release, target));
  for (const name of buildChart(root, join(work, 'chart'), release, target)) say(target, name);
  if (signer) {
    buildAptRepository(archs, release, target, signer);
    buildRpmRepository(release, target, signer);
  }
  if (options.url !== undefined) {
    write(target, 'krew/sluice.yaml', krewManifest(archives, release, options.url));
    write(target, 'homebrew/sluice.rb', brewFormula(archives, release, options.url));
  }
  writePapers([...natives(options), ...parts.flatMap(debianParts)], release, target);
  signer?.detached(join(target, sums), join(target, `${sums}.asc`));
}

/** `sluice` alone, for each system with this architecture. */
async function buildCliArchives(
  tree: string,
  arch: Arch,
  release: PackageRelease,
  target: string,
): Promise<readonly CliArchive[]> {
  const archives: CliArchive[] = [];
  for (const system of systems) {
    const name = await buildCliArchive(root, tree, { system, arch }, release, target);
    say(target, name);
    archives.push({ system, arch, name, sha256: sha256Of(join(target, name)) });
  }
  return archives;
}

function write(target: string, name: string, text: string): void {
  mkdirSync(dirname(join(target, name)), { recursive: true });
  writeFileSync(join(target, name), text);
  say(target, name);
}

/** The parts list and the provenance, and the digests of all files. */
function writePapers(parts: readonly Native[], release: PackageRelease, target: string): void {
  const stem = `sluice-${release.version}`;
  write(target, `${stem}.cdx.json`, billOfMaterials(read('pnpm-lock.yaml'), release.version, parts));
  write(target, `${stem}.provenance.json`, provenance(digests(target), commit(), parts, release));
  write(
    target,
    sums,
    Object.entries(digests(target))
      .map(([name, digest]) => `${digest}  ${name}\n`)
      .join(''),
  );
}

const sums = 'SHA256SUMS';

interface Options {
  readonly archs: readonly Arch[];
  readonly target: string;
  readonly images: boolean;
  /** Whether there are archives of `sluice` alone. */
  readonly cli: boolean;
  /** Of the folder with the files of this release, for manifests that name them. */
  readonly url: string | undefined;
  readonly signer: Signer | undefined;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: archNames.join(',') },
      output: { type: 'string', short: 'o' },
      // Their tools are fetched, which needs a network.
      images: { type: 'boolean', default: true },
      // Node for macOS is fetched, too.
      cli: { type: 'boolean', default: true },
      url: { type: 'string' },
      'sign-with': { type: 'string' },
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
    images: values.images,
    cli: values.cli,
    url: releaseUrl(values.url, values.cli),
    signer: values['sign-with'] === undefined ? undefined : signerOf(values['sign-with']),
  };
}

function releaseUrl(url: string | undefined, cli: boolean): string | undefined {
  if (url === undefined || (cli && URL.canParse(url) && /^https?:/.test(url))) return url;
  throw new PackageError(
    cli
      ? `Cannot use ${url} as the address of a release: it is no URL of HTTP`
      : 'Cannot name archives that are not built',
    'Use --url=https://HOST/PATH, without --no-cli',
  );
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

/** The time of every file: SOURCE_DATE_EPOCH, or the time of the commit. */
function epoch(): number {
  const text = process.env['SOURCE_DATE_EPOCH'] ?? run('git', ['-C', root, 'log', '-1', '--format=%ct']).trim();
  if (/^\d{1,10}$/.test(text)) return Number(text);
  throw new PackageError(`Cannot use the time "${text}"`, 'Set SOURCE_DATE_EPOCH to seconds since 1970');
}

const sha256Of = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

function natives({ archs, cli }: Options): readonly Native[] {
  return archs.flatMap((arch) => {
    const nodes = systems.slice(0, cli ? undefined : 1).map((system) => {
      const { name, version } = nodePackage(root, arch, system);
      return { name, version, purl: `pkg:npm/${name}@${version}`, sha256: sha256Of(nodeBinary(root, arch, system)) };
    });
    const purl = `pkg:generic/libatomic@1?arch=${arch}`;
    return [...nodes, { name: 'libatomic', version: '1', purl, sha256: sha256Of(libatomic(arch)) }];
  });
}

/** The packages of Debian inside the images. */
function debianParts({ debianArch, packages }: ImageParts): readonly Native[] {
  return packages.map(({ name, version, sha256 }) => {
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${debianArch}&distro=${suite}`;
    return { name, version, purl, sha256 };
  });
}

/** The full hash of the commit; undefined without Git. */
function commit(): string | undefined {
  try {
    return run('git', ['-C', root, 'rev-parse', '--verify', '-q', 'HEAD']).trim();
  } catch {
    return undefined;
  }
}

/** SHA-256 of every file, by its path. */
function digests(target: string): Readonly<Record<string, string>> {
  const names = filesBelow(target).filter((name) => !name.startsWith('.'));
  return Object.fromEntries(names.map((name) => [name, sha256Of(join(target, name))]));
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
