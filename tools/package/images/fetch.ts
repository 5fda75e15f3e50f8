/** Debian packages of any architecture, fetched with apt beside the machine's own lists of packages. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PackageError } from '../run.ts';

/** The Debian release of the images' tools. */
export const suite = 'trixie';

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** A fetched package. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** The text of its `control`. */
  readonly control: string;
  readonly file: string;
  /** Of the file, in hexadecimal digits. */
  readonly sha256: string;
}

/**
 * Fetches packages and all that they need: the newest of the suite, with its security updates. apt verifies each with the signed lists.
 * @param debianArch Debian's name of the architecture: amd64
 * @param names of packages
 * @param work an empty folder, which has the files afterwards
 * @throws PackageError when apt cannot fetch them
 */
export function fetchPackages(debianArch: string, names: readonly string[], work: string): readonly DebianPackage[] {
  for (const folder of ['lists/partial', 'archives/partial', 'sources']) {
    mkdirSync(join(work, folder), { recursive: true });
  }
  writeFileSync(join(work, 'status'), '');
  writeFileSync(join(work, 'sources/debian.sources'), sourcesText());
  apt(debianArch, work, ['update']);
  apt(debianArch, work, ['--yes', '--download-only', '--no-install-recommends', 'install', ...names]);
  return readdirSync(join(work, 'archives'))
    .filter((name) => name.endsWith('.deb'))
    .toSorted()
    .map((name) => packageOf(join(work, 'archives', name)));
}

function packageOf(file: string): DebianPackage {
  const control = execFileSync('dpkg-deb', ['--field', file], { encoding: 'utf8' });
  const field = (name: string): string => new RegExp(`^${name}: (.+)$`, 'm').exec(control)?.[1] ?? '';
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  return { name: field('Package'), version: field('Version'), control, file, sha256 };
}

function apt(debianArch: string, work: string, argv: readonly string[]): void {
  const settings = {
    'APT::Architecture': debianArch,
    'APT::Architectures': debianArch,
    'APT::Sandbox::User': '',
    'Acquire::Languages': 'none',
    'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled': 'false',
    'Dir::State': work,
    'Dir::State::lists': join(work, 'lists'),
    'Dir::State::status': join(work, 'status'),
    'Dir::Cache::archives': join(work, 'archives'),
    'Dir::Cache::pkgcache': '',
    'Dir::Cache::srcpkgcache': '',
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': join(work, 'sources'),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  // Without Error-Mode apt exits with 0 although it could not update a list.
  const update = argv[0] === 'update' ? ['-o', 'APT::Update::Error-Mode=any'] : [];
  try {
    execFileSync('apt-get', ['-qq', ...options, ...update, ...argv], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    const { stderr } = error as { readonly stderr?: Buffer };
    const said = stderr?.toString().match(/^E: .*$/m)?.[0] ?? String(error).split('\n', 1)[0];
    throw new PackageError(`Cannot fetch Debian packages for ${debianArch}: ${said}`, withoutHint);
  }
}

const withoutHint = 'Check the network, or build without images: --no-images';

/** The mirrors of this machine, but with one suite. */
function sourcesText(): string {
  const mirrors = aptTexts().flatMap((text) => text.match(/https?:\/\/[^\s\]]+/g) ?? []);
  const ending = (name: string): string | undefined => mirrors.find((uri) => uri.replace(/\/+$/, '').endsWith(name));
  const [main, security] = [ending('/debian'), ending('/debian-security')];
  if (main === undefined || !existsSync(keyring))
    throw new PackageError('Cannot fetch Debian packages: apt has no mirror of Debian, or no keyring', withoutHint);
  if (security === undefined)
    throw new PackageError('Cannot fetch Debian packages: apt has no mirror of Debian security updates', withoutHint);
  const stanza = (uri: string, suites: string): string =>
    `Types: deb\nURIs: ${uri}\nSuites: ${suites}\nComponents: main\nSigned-By: ${keyring}\n`;
  return [stanza(main, `${suite} ${suite}-updates`), stanza(security, `${suite}-security`)].join('\n');
}

/** The machine's sources without their comments. */
function aptTexts(): readonly string[] {
  const folder = '/etc/apt/sources.list.d';
  const files = existsSync(folder) ? readdirSync(folder).toSorted() : [];
  return ['/etc/apt/sources.list', ...files.map((name) => join(folder, name))]
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8').replace(/^#.*$/gm, ''));
}
