import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { clusterFile } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { decode } from './decode.ts';
import { loadLimits } from './parse/limits.ts';
import type { ReadSources, SourceFile } from './sources.ts';

/**
 * Whether a directory contains manifests and not a bundle: kubectl calls its KUBECTL_EXTERNAL_DIFF with two of them. An incomplete bundle
 * counts as a bundle, so that the missing part is reported.
 */
export function isManifestFolder(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
  if (existsSync(join(path, 'profiles'))) return false;
  const cluster = join(path, clusterFile);
  return !existsSync(cluster) || !readFileSync(cluster, 'utf8').includes('apiVersion: sluice.dev/');
}

/**
 * Reads all files of a directory tree, whatever their names: kubectl's have no extension (`v1.Service.shop.web`). A file may be empty, such
 * as that of an object that does not exist yet.
 */
export function readManifestFolder(path: string): ReadSources {
  const sources: SourceFile[] = [];
  const problems: Problem[] = [];
  const entries = readdirSync(path, { recursive: true, withFileTypes: true });
  for (const file of entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))) {
    const isTooLarge = statSync(file).size > loadLimits.fileBytesMax;
    const decoded = isTooLarge ? tooLarge(file) : decode(file, readFileSync(file));
    if ('text' in decoded) sources.push({ file, text: decoded.text });
    else problems.push(decoded);
  }
  return { sources: sources.toSorted((a, b) => compareText(a.file, b.file)), problems };
}

function tooLarge(file: string): Problem {
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    message: `Cannot read ${file}: it is larger than ${loadLimits.fileBytesMax} bytes`,
    hint: 'Compare directories of manifests only',
  };
}
