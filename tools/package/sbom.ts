/** The SBOM of a release, as CycloneDX 1.5. It depends on the lockfile only: no time, no serial number, nothing random. */
import { parse } from 'yaml';

interface Lockfile {
  readonly importers: Readonly<
    Record<string, { readonly dependencies?: Readonly<Record<string, { version: string }>> }>
  >;
  readonly packages: Readonly<Record<string, { readonly resolution: { readonly integrity?: string } }>>;
  readonly snapshots: Readonly<Record<string, { readonly dependencies?: Readonly<Record<string, string>> }>>;
}

/** Software inside the executables other than npm packages. */
export interface Native {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly sha256: string;
}

const workspace = [
  'netfilter',
  'bundle',
  'cli',
  'transport',
  'renderer',
  'delivery',
  'review',
  'sluice',
  'applier',
].map((name) => `packages/${name}`);

/**
 * @param lockfile the text of pnpm-lock.yaml
 * @returns the text of the SBOM: each package that our code depends on, with its digest in the lockfile and its own dependencies
 */
export function billOfMaterials(lockfile: string, version: string, natives: readonly Native[]): string {
  const lock = parse(lockfile) as Lockfile;
  const reached = [...reach(lock)].toSorted();
  const components = reached.map((key) => component(lock, key));
  const root = { type: 'application', 'bom-ref': `sluice@${version}`, name: 'sluice', version };
  const direct = new Set(workspace.flatMap((name) => entries(lock.importers[name]?.dependencies)));
  const list = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: { ...root, licenses: [{ license: { id: 'Apache-2.0' } }] } },
    components: [...components, ...natives.map(nativeComponent)],
    dependencies: [
      { ref: root['bom-ref'], dependsOn: [...[...direct].toSorted(), ...natives.map(({ purl }) => purl)] },
      ...reached.map((key) => ({ ref: key, dependsOn: needsOf(lock, key) })),
    ],
  };
  return `${JSON.stringify(list, undefined, 2)}\n`;
}

/** Dependencies as keys of `snapshots`: name@version, with the peers in brackets. Links are packages of the workspace and left out. */
function entries(dependencies: Readonly<Record<string, string | { version: string }>> | undefined): string[] {
  return Object.entries(dependencies ?? {})
    .map(([name, at]) => [name, typeof at === 'string' ? at : at.version] as const)
    .filter(([, at]) => !at.startsWith('link:'))
    .map(([name, at]) => (/^[^(]*@/.test(at) ? at : `${name}@${at}`));
}

/** The packages that our code depends on, as keys of the lockfile, sorted. */
export function reachedPackages(lockfile: string): readonly string[] {
  return [...reach(parse(lockfile) as Lockfile)].toSorted();
}

const needsOf = (lock: Lockfile, key: string): readonly string[] =>
  entries(lock.snapshots[key]?.dependencies).toSorted();

function reach(lock: Lockfile): ReadonlySet<string> {
  const seen = new Set<string>();
  const open = workspace.flatMap((name) => entries(lock.importers[name]?.dependencies));
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    if (seen.has(key)) continue;
    seen.add(key);
    open.push(...needsOf(lock, key));
  }
  return seen;
}

function component(lock: Lockfile, key: string): object {
  const plain = key.replace(/\(.*$/, '');
  const at = plain.lastIndexOf('@');
  const [name, version] = [plain.slice(0, at), plain.slice(at + 1)];
  const integrity = lock.packages[plain]?.resolution.integrity;
  if (!integrity?.startsWith('sha512-')) throw new Error(`Cannot list ${plain}: the lockfile has no sha512 of it`);
  const content = Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex');
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return { type: 'library', 'bom-ref': key, name, version, purl, hashes: [{ alg: 'SHA-512', content }] };
}

const nativeComponent = ({ name, version, purl, sha256 }: Native): object => ({
  type: 'library',
  'bom-ref': purl,
  name,
  version,
  purl,
  hashes: [{ alg: 'SHA-256', content: sha256 }],
});
