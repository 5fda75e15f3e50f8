import type { Command } from 'commander';
import { document } from './document.ts';
import { type Format, outputOption } from './format.ts';
import { examples } from './help.ts';

/** What a program says of itself: enough to tell two installations apart, and whether they read each other's files. */
export interface VersionReport {
  readonly version: string;
  /** The `format` of cluster.yaml that is read and written. */
  readonly bundleFormats: readonly number[];
  /** What `requires` of release.yaml may name. */
  readonly releaseFeatures: readonly string[];
  /** The Node inside it. */
  readonly node: string;
  readonly platform: string;
  readonly arch: string;
}

/** What a program knows of itself, and of the process that it runs in. */
export interface VersionSource extends Pick<VersionReport, 'version' | 'bundleFormats' | 'releaseFeatures'> {
  readonly runtime: {
    readonly versions: { readonly node: string };
    readonly platform: string;
    readonly arch: string;
  };
}

/** The report; it holds nothing of the time or the machine beyond what the executable was built for. */
export function versionReport({ runtime, ...own }: VersionSource): VersionReport {
  return { ...own, node: runtime.versions.node, platform: runtime.platform, arch: runtime.arch };
}

/** The same for people: one line, the version first. */
export function versionLine(name: string, { version, bundleFormats, node, platform, arch }: VersionReport): string {
  return `${name} ${version} (${platform} ${arch}, Node ${node}, bundle format ${bundleFormats.join(', ')})\n`;
}

/**
 * Adds `version` to a program.
 * @param source asked when the command runs: other commands need nothing of it
 * @param print writes to standard output
 */
export function versionCommand(
  program: Command,
  source: () => Promise<VersionSource>,
  print: (text: string) => void,
): void {
  const name = program.name();
  examples(program.command('version'), [`${name} version`, `${name} version -o json`])
    .summary(`say which ${name} this is`)
    .description(
      `Says the version of ${name}, which bundle formats it reads, the Node inside it and what it was built for. --version is the number alone.`,
    )
    .addOption(outputOption())
    .action(async ({ output }: { readonly output: Format }) => {
      const report = versionReport(await source());
      print(output === 'json' ? document('Version', report) : versionLine(name, report));
    });
}

/** `--version` with words behind it, such as `-o json`, is the command `version`; alone it stays what prints the number. */
export function versionWords(words: readonly string[]): readonly string[] {
  const [first = '', ...rest] = words;
  return /^(-V|--version)$/.test(first) && rest.length > 0 ? ['version', ...rest] : words;
}
