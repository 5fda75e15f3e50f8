/** What package managers of users read of a release: the manifest of krew and the formula of Homebrew. */
import { stringify } from 'yaml';
import type { PackageRelease } from './deb.ts';
import { type Arch, architectures, type System } from './node.ts';

/** An archive of `sluice` alone, as `buildCliArchive` wrote it. */
export interface CliArchive {
  readonly system: System;
  readonly arch: Arch;
  readonly name: string;
  readonly sha256: string;
}

const homepage = 'https://sluice.dev';
const short = 'Render, review and diff rules of Services';
const long = `Renders Kubernetes Services and their endpoints into versioned rule bundles, one
per node, and shows how a change affects traffic before a node gets it.
`;

/** @param base the URL of the folder with the files of this release */
const addressOf = (base: string, name: string): string => `${base.replace(/\/+$/, '')}/${encodeURIComponent(name)}`;
const folderOf = (name: string): string => name.replace(/\.tar\.gz$/, '');

/** `kubectl sluice`, for `kubectl krew install --manifest` or an index: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/. */
export function krewManifest(archives: readonly CliArchive[], { version }: PackageRelease, base: string): string {
  const platforms = archives.map(({ system, arch, name, sha256 }) => ({
    selector: { matchLabels: { os: system, arch: architectures[arch].debian } },
    uri: addressOf(base, name),
    sha256,
    bin: `${folderOf(name)}/bin/sluice`,
  }));
  return stringify(
    {
      apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
      kind: 'Plugin',
      metadata: { name: 'sluice' },
      spec: { version: `v${version}`, homepage, shortDescription: short, description: long, platforms },
    },
    { lineWidth: 0 },
  );
}

/** The words of Homebrew for systems and architectures. */
const brewed = { linux: 'linux', darwin: 'macos', x64: 'intel', arm64: 'arm' } as const;

/** A formula for a tap. It installs the archive as it is: Node in it is the program's own. */
export function brewFormula(archives: readonly CliArchive[], { version }: PackageRelease, base: string): string {
  const source = ({ arch, name, sha256 }: CliArchive): string => `    on_${brewed[arch]} do
      url "${addressOf(base, name)}"
      sha256 "${sha256}"
    end
`;
  const systems = [...new Set(archives.map(({ system }) => system))].map((system) => {
    const sources = archives.filter((one) => one.system === system).map(source);
    return `  on_${brewed[system]} do\n${sources.join('')}  end\n`;
  });
  return `class Sluice < Formula
  desc "${short}"
  homepage "${homepage}"
  version "${version}"
  license "Apache-2.0"

${systems.join('\n')}
  def install
    prefix.install Dir["*"]
  end

  test do
    assert_equal version.to_s, shell_output("#{bin}/sluice --version").strip
  end
end
`;
}
