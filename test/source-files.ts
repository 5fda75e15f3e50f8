import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const packages = join(import.meta.dirname, '../packages');

/** A source file of the programs. */
export interface SourceFile {
  /** `applier/src/diagnose/doctor/meetings.ts` */
  readonly path: string;
  readonly text: string;
}

/**
 * Where a data plane is at home: files that are about one mode, tables with an entry for each mode (`planes.ts`, `modes.ts`), and the view
 * of Services. Linking, tracing and reading the rule languages of kernels are about single planes, too.
 */
const ownFiles =
  /\/(?:nftables|ipvs|iptables|nft|virtual|nft-text|planes|modes?)(?:\/|\.ts$)|\/(?:nft|ipvs|virtual)-[^/]*$|-(?:nft|ipvs)\.ts$|^netfilter\/src\/(?:link|rules|trace|live|services)\//;

function isForTests(path: string): boolean {
  return /\.(?:test|fixture|generated)\.ts$|\/testing\.ts$|\/(?:testing|fake|node_modules)\//.test(path);
}

/** The files of both programs outside of the files of data planes, without what is for tests alone. */
export const filesOutsideOfPlanes: readonly SourceFile[] = readdirSync(packages, { recursive: true, encoding: 'utf8' })
  .filter(
    (path) =>
      /^(?:netfilter|bundle|renderer|review|delivery|sluice|applier)\/src\/.*\.ts$/.test(path) && !isForTests(path),
  )
  .filter((path) => !ownFiles.test(path))
  .map((path) => ({ path, text: readFileSync(join(packages, path), 'utf8') }));

/** One reason for several files. */
export function inEach(reason: string, paths: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(paths.map((path) => [path, reason]));
}
