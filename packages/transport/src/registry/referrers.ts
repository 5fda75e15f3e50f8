import { type OciDescriptor, mediaTypes, printIndex, readDescriptor, readIndex } from './artifact.ts';
import { pushManifest, readManifestBytes } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { RegistryFailure } from '../http/failure.ts';
import { registryLimits } from '../http/limits.ts';

/**
 * Pushes a manifest with a subject. A registry with OCI 1.1 adds it to the list of referrers and confirms that with `OCI-Subject`; for others
 * the client maintains the list, an index under a tag: distribution-spec 1.1, "Pushing Manifests with Subject".
 */
export async function pushReferrer(
  client: RegistryClient,
  subject: OciDescriptor,
  own: OciDescriptor,
  bytes: Uint8Array,
): Promise<void> {
  const { tracksSubject } = await pushManifest(client, own.digest, mediaTypes.manifest, bytes);
  if (tracksSubject) return;
  // The new list must keep all entries unchanged, including foreign ones, or must not be written.
  const listed = await listedByTag(client, subject.digest);
  const digests = listed.map((entry) => readDescriptor(listOf(subject.digest), entry).digest);
  if (digests.includes(own.digest)) return;
  await pushManifest(client, tagOf(subject.digest), mediaTypes.index, printIndex([...listed, own]));
}

/** What refers to a manifest. */
export interface Referrers {
  /** Signatures and openings, sorted by digest. */
  readonly referrers: readonly OciDescriptor[];
  /** Why others were ignored, in words. */
  readonly passedOver: readonly string[];
}

/**
 * Lists the referrers of a manifest with the API of OCI 1.1, or by tag. Scanners add many reports, so only signatures and openings count;
 * above the limit the first ones of the registry's list are kept, because an attacker could choose a low digest.
 */
export async function referrersOf(client: RegistryClient, digest: string): Promise<Referrers> {
  const found = await listedByApi(client, digest);
  if (found !== undefined) return selectReferrers(listOf(digest), found.entries, found.isCut);
  return selectReferrers(listOf(digest), await listedByTag(client, digest), false);
}

/**
 * The signatures and openings of a list.
 * @param what the list, for messages
 * @param listed unverified entries
 * @param isCut the list was not read to its end
 */
export function selectReferrers(what: string, listed: readonly unknown[], isCut: boolean): Referrers {
  const entries = listed.filter(isOurs);
  const { referrersMax, pagesMax } = registryLimits;
  const passedOver: string[] = [];
  if (entries.length > referrersMax)
    passedOver.push(`${what}: all signatures and openings after the first ${referrersMax}`);
  if (isCut) passedOver.push(`${what}: all entries after ${pagesMax} pages`);
  const referrers = entries.slice(0, referrersMax).flatMap((entry) => {
    try {
      return [readDescriptor(what, entry)];
    } catch (error) {
      if (!(error instanceof RegistryFailure)) throw error;
      passedOver.push(error.message);
      return [];
    }
  });
  return { referrers: referrers.toSorted((a, b) => (a.digest < b.digest ? -1 : 1)), passedOver };
}

/** Checks the type of an entry; the manifest is checked later. */
function isOurs(entry: unknown): boolean {
  const { artifactType } = (entry ?? {}) as Record<string, unknown>;
  return artifactType === mediaTypes.signature || artifactType === mediaTypes.opening;
}

interface ReferrerList {
  /** Signatures and openings, up to the limit. */
  readonly entries: readonly unknown[];
  /** There are more pages than the limit. */
  readonly isCut: boolean;
}

async function listedByApi(client: RegistryClient, digest: string): Promise<ReferrerList | undefined> {
  let entries: readonly unknown[] = [];
  let url: URL | undefined = client.at(`referrers/${digest}`);
  for (let page = 0; url !== undefined && entries.length <= registryLimits.referrersMax; page++) {
    if (page >= registryLimits.pagesMax) return { entries, isCut: true };
    const question = {
      method: 'GET',
      headers: { accept: mediaTypes.index },
      bytesMax: registryLimits.manifestBytesMax,
    } as const;
    const answer = await client.ask(`list the signatures of ${digest}`, url, question, [200, 404]);
    const type = answer.headers['content-type']?.split(';')[0]?.trim();
    if (answer.status === 404 || type !== mediaTypes.index) return undefined;
    entries = [...entries, ...readIndex(listOf(digest), answer.body).filter(isOurs)];
    const [, next] = /<([^>]+)>\s*;\s*rel="?next"?/i.exec([answer.headers['link'] ?? ''].flat().join()) ?? [];
    url = next === undefined ? undefined : client.next(next, url);
  }
  return { entries, isCut: false };
}

async function listedByTag(client: RegistryClient, digest: string): Promise<readonly unknown[]> {
  const index = await readManifestBytes(client, tagOf(digest), [200, 404]);
  return index === undefined ? [] : readIndex(listOf(digest), index);
}

const listOf = (digest: string): string => `the list of signatures of ${digest}`;

/** distribution-spec 1.1, "Referrers Tag Schema". */
const tagOf = (digest: string): string => digest.replace(':', '-');
