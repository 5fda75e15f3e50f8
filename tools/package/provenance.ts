/** What a release was built from: an in-toto statement with SLSA provenance 1.0. */
import type { PackageRelease } from './deb.ts';
import type { Native } from './sbom.ts';

/** Where `docs/release-process.md` describes the build. */
const buildType = 'https://sluice.dev/docs/release-process';

/**
 * It says nothing of the machine or the time: the same commit gives the same text.
 * @param files name → SHA-256 (hex) of each file of the release
 * @param commit the full hash, or undefined where the sources come without Git
 */
export function provenance(
  files: Readonly<Record<string, string>>,
  commit: string | undefined,
  natives: readonly Native[],
  { version, epoch }: PackageRelease,
): string {
  const source = commit === undefined ? [] : [{ name: 'sluice', digest: { gitCommit: commit } }];
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: Object.entries(files).map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType,
        externalParameters: { version, sourceDateEpoch: epoch },
        resolvedDependencies: [...source, ...natives.map(({ purl, sha256 }) => ({ uri: purl, digest: { sha256 } }))],
      },
      runDetails: { builder: { id: `${buildType}#dev-package` } },
    },
  };
  return `${JSON.stringify(statement, undefined, 2)}\n`;
}
