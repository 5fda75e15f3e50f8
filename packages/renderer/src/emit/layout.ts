import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Problem } from '@sluice/netfilter';
import { annotationsOf, blobFile, indexFile, readWithin } from '@sluice/transport/content/layout.ts';
import type { Packed, PackedRelease } from '@sluice/transport/content/pack.ts';
import { countOf, type Pushed } from '@sluice/transport/content/push.ts';
import { registryLimits } from '@sluice/transport/http/limits.ts';
import {
  mediaTypes,
  previousKey,
  printIndex,
  readIndex,
  referencesOf,
  subjectKey,
  tagKey,
} from '@sluice/transport/registry/artifact.ts';
import { isDigest } from '@sluice/transport/registry/reference.ts';
import { removeFile, replaceFile } from './file.ts';
import { makeFolder } from './folder.ts';
import { busy, whileLocked } from './lock.ts';

/**
 * Writes a release into an OCI image layout, for web servers and object stores, one process at a time. Blobs are written first and
 * `index.json` is replaced last, so readers find a whole release at any moment. The release that the tag named before stays for those that
 * read it now; blobs that nothing in `index.json` needs are removed.
 * @param dir made where it is missing
 * @returns what was written; or why not (`OUTPUT_UNWRITABLE`)
 * @throws RegistryFailure for an `index.json` of another form, errors of the file system
 */
export function writeLayout(dir: string, tag: string, release: PackedRelease): Pushed | Problem {
  makeFolder(join(dir, dirname(blobFile(release.index.descriptor.digest))));
  return whileLocked(dir, () => place(dir, tag, release)) ?? busy(dir);
}

function place(dir: string, tag: string, release: PackedRelease): Pushed {
  const { index, manifests, blobs, referrers } = release;
  const before = entriesOf(dir);
  const written = [...blobs, ...manifests, index].filter((one) => writeBlob(dir, one));
  for (const one of referrers.flatMap(({ manifest, blobs: own }) => [...own, manifest])) writeBlob(dir, one);
  const entries = nextEntries(before, tag, release);
  replaceIfOther(join(dir, 'oci-layout'), `${JSON.stringify({ imageLayoutVersion: '1.0.0' })}\n`);
  replaceIfOther(join(dir, indexFile), printIndex(entries));
  prune(dir, entries);
  return countOf(release, (layer) => written.includes(layer));
}

function entriesOf(dir: string): readonly unknown[] {
  const path = join(dir, indexFile);
  const bytes = readWithin(path, registryLimits.manifestBytesMax);
  return bytes === undefined ? [] : readIndex(path, bytes);
}

/** @returns whether it was not there */
function writeBlob(dir: string, { descriptor, bytes }: Packed): boolean {
  return replaceIfOther(join(dir, blobFile(descriptor.digest)), bytes);
}

function replaceIfOther(path: string, content: Uint8Array | string): boolean {
  const bytes = Buffer.from(content);
  if (statSync(path, { throwIfNoEntry: false })?.size === bytes.length && readFileSync(path).equals(bytes))
    return false;
  replaceFile(path, bytes);
  return true;
}

/** The entries of `index.json`: this release, the one before, other tags and entries of other tools, and what refers to any of them. */
function nextEntries(before: readonly unknown[], tag: string, { index, referrers }: PackedRelease): readonly unknown[] {
  const own = { ...index.descriptor, annotations: { [tagKey]: tag } };
  const current = before.find((entry) => annotationsOf(entry)[tagKey] === tag);
  const isSame = digestOf(current) === index.descriptor.digest;
  const previous = isSame
    ? before.find((entry) => annotationsOf(entry)[previousKey] === tag)
    : current && { ...current, annotations: { [previousKey]: tag } };
  const others = before.filter((entry) => {
    const { [tagKey]: tagged, [previousKey]: earlier, [subjectKey]: subject } = annotationsOf(entry);
    return tagged !== tag && earlier !== tag && subject === undefined;
  });
  const releases = [own, ...(previous === undefined ? [] : [previous]), ...others];
  const digests = new Set(releases.map(digestOf));
  const kept = before.filter((entry) => digests.has(annotationsOf(entry)[subjectKey]));
  const known = new Set(kept.map(digestOf));
  const added = referrers.filter(({ manifest }) => !known.has(manifest.descriptor.digest));
  const annotations = { [subjectKey]: index.descriptor.digest };
  return [...releases, ...kept, ...added.map(({ manifest }) => ({ ...manifest.descriptor, annotations }))];
}

const digestOf = (entry: unknown): unknown => (entry as { readonly digest?: unknown } | undefined)?.digest;

/** Removes what a killed writer left, and the blobs that no entry needs. Where one of these cannot be followed, no blob is removed. */
function prune(dir: string, entries: readonly unknown[]): void {
  for (const name of readdirSync(dir)) if (/^\.sluice-.*\.tmp$/.test(name)) removeFile(join(dir, name));
  const needed = new Set<string>();
  const isKnown = entries.every((entry) => isDigest(digestOf(entry)) && addNeeded(dir, entry as Entry, needed));
  if (!isKnown) return;
  const folder = join(dir, dirname(blobFile(`sha256:${'0'.repeat(64)}`)));
  for (const name of readdirSync(folder)) if (!needed.has(`sha256:${name}`)) removeFile(join(folder, name));
}

interface Entry {
  readonly mediaType?: unknown;
  readonly digest: string;
}

/** @returns false where a manifest is missing */
function addNeeded(dir: string, { digest, mediaType }: Entry, needed: Set<string>): boolean {
  if (needed.has(digest)) return true;
  needed.add(digest);
  if (mediaType !== mediaTypes.manifest && mediaType !== mediaTypes.index) return true;
  const path = join(dir, blobFile(digest));
  const bytes = readWithin(path, registryLimits.manifestBytesMax);
  return bytes !== undefined && referencesOf(path, bytes).every((entry) => addNeeded(dir, entry, needed));
}
