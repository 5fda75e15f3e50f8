import type { Command } from 'commander';
import { document } from './document.ts';
import { type Format, outputOption } from './format.ts';
import { examples } from './help.ts';

/** The version of a program: enough to distinguish two installations, and to tell whether they read each other's files. */
export interface VersionReport {
  readonly version: string;
  /** The `format` of cluster.yaml that is read and written. */
  readonly bundleFormats: readonly number[];
  /** The supported features of `requires` in release.yaml. */
  readonly releaseFeatures: readonly string[];
  /** The version of Node inside it. */
  readonly node: string;
  readonly platform: string;
  readonly arch: string;
}

/** The facts of a program and its process. */
export interface VersionSource extends Pick<VersionReport, 'version' | 'bundleFormats' | 'releaseFeatures'> {
  readonly runtime: {
    readonly versions: { readonly node: string };
    readonly platform: string;
    readonly arch: string;
  };
}

/** Makes the report. It contains no time, and of the machine only the platform that the executable was built for. */
export function versionReport({ runtime, ...own }: VersionSource): VersionReport {
  return { ...own, node: runtime.versions.node, platform: runtime.platform, arch: runtime.arch };
}

/** Prints the report in one line, the version first. */
export function versionLine(name: string, { version, bundleFormats, node, platform, arch }: VersionReport): string {
  return `${name} ${version} (${platform} ${arch}, Node ${node}, bundle format ${bundleFormats.join(', ')})\n`;
}

/**
 * Adds `version` to a program.
 * @param source called when the command runs: other commands do not need it
 * @param print writes to standard output
 */
export function versionCommand(
  program: Command,
  source: () => Promise<VersionSource>,
  print: (text: string) => void,
): void {
  const name = program.name();
  examples(program.command('version'), [`${name} version`, `${name} version -o json`])
    .summary(`print the version of ${name}`)
    .description(
      `Prints the version of ${name}, the bundle formats that it reads, its Node version and its platform. --version prints the number only.`,
    )
    .addOption(outputOption())
    .action(async ({ output }: { readonly output: Format }) => {
      const report = versionReport(await source());
      print(output === 'json' ? document('Version', report) : versionLine(name, report));
    });
}

/** Turns `--version` with further words, such as `-o json`, into the command `version`; alone it prints the number. */
export function versionWords(words: readonly string[]): readonly string[] {
  const [first = '', ...rest] = words;
  return /^(-V|--version)$/.test(first) && rest.length > 0 ? ['version', ...rest] : words;
}
