import type { Command } from 'commander';
import { document } from './document.ts';
import { type Format, outputOption } from './format.ts';
import { examples } from './help.ts';

/** Set where a program is built (tools/bundle.ts). */
declare const builtVersion: string | undefined;

/** The version of both programs; from a checkout, that of the release that comes next. */
export const version = typeof builtVersion === 'undefined' ? '0.2.0-dev' : builtVersion;

/** The version of a program: enough to distinguish two installations, and to tell whether they read each other's files. */
interface VersionReport {
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

/** What a program reads, as `@sluice/bundle` has it. */
type SupportedFormats = Pick<VersionReport, 'bundleFormats' | 'releaseFeatures'>;

/** Makes the report. It contains no time, and of the machine only the platform that the executable was built for. */
export function versionReport({ bundleFormats, releaseFeatures }: SupportedFormats): VersionReport {
  const { versions, platform, arch } = process;
  return { version, bundleFormats, releaseFeatures, node: versions.node, platform, arch };
}

/** Prints the report in one line, the version first. */
export function versionLine(name: string, { bundleFormats, node, platform, arch }: VersionReport): string {
  return `${name} ${version} (${platform} ${arch}, Node ${node}, bundle format ${bundleFormats.join(', ')})\n`;
}

/**
 * Adds `version` to a program.
 * @param supported called when the command runs: other commands do not need it
 * @param print writes to standard output
 */
export function versionCommand(
  program: Command,
  supported: () => Promise<SupportedFormats>,
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
      const report = versionReport(await supported());
      print(output === 'json' ? document('Version', report) : versionLine(name, report));
    });
}

/** Turns `--version` with further words, such as `-o json`, into the command `version`; alone it prints the number. */
export function versionWords(words: readonly string[]): readonly string[] {
  const [first = '', ...rest] = words;
  return /^(-V|--version)$/.test(first) && rest.length > 0 ? ['version', ...rest] : words;
}
