import { type Descriptor, descriptorOf, mediaTypes, printIndex, readDescriptor, readIndex } from './artifact.ts';
import { manifestOfTag, pushManifest } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { RegistryFailure } from './failure.ts';
import { registryLimits } from './limits.ts';

/**
 * Adds a manifest that has a subject. A registry that knows OCI 1.1 lists it by itself and says so (`OCI-Subject`); for others the
 * list is an index under a tag, which whoever pushes keeps: distribution-spec 1.1, "Pushing Manifests with Subject".
 */
export async function pushReferrer(
  client: RegistryClient,
  subject: Descriptor,
  artifactType: string,
  bytes: Buffer,
): Promise<void> {
  const own = { ...descriptorOf(mediaTypes.manifest, bytes), artifactType };
  const { tracksSubject } = await pushManifest(client, own.digest, mediaTypes.manifest, bytes);
  if (tracksSubject) return;
  // Who writes the list anew keeps every entry of it as it is, whoever's it is, or does not write.
  const listed = await listedByTag(client, subject.digest);
  const digests = listed.map((entry) => readDescriptor(listOf(subject.digest), entry).digest);
  if (digests.includes(own.digest)) return;
  await pushManifest(client, tagOf(subject.digest), mediaTypes.index, printIndex([...listed, own]));
}

export interface Referrers {
  /** Those of our types, sorted by digest. */
  readonly referrers: readonly Descriptor[];
  /** Why others do not count, in words for people. */
  readonly passedOver: readonly string[];
}

/**
 * What refers to a manifest: by the API of OCI 1.1, or by the tag where the registry does not know it. Scanners add reports without
 * end, so only what says that it is ours is looked at; and of too much of that the first that the registry lists, because by digest
 * a stranger could choose to come first.
 */
export async function referrersOf(client: RegistryClient, digest: string): Promise<Referrers> {
  const what = listOf(digest);
  const { entries, isCut } = (await listedByApi(client, digest)) ?? {
    entries: (await listedByTag(client, digest)).filter(isOurs),
    isCut: false,
  };
  const { referrersMax, pagesMax } = registryLimits;
  const passedOver: string[] = [];
  if (entries.length > referrersMax)
    passedOver.push(`${what}: signatures and openings after the first ${referrersMax}`);
  if (isCut) passedOver.push(`${what}: all that comes after ${pagesMax} pages`);
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

/** What its entry says; the manifest is held against it later. */
function isOurs(entry: unknown): boolean {
  const { artifactType } = (entry ?? {}) as Record<string, unknown>;
  return artifactType === mediaTypes.signature || artifactType === mediaTypes.opening;
}

interface Listed {
  /** Of ours, those that were come upon until there were enough. */
  readonly entries: readonly unknown[];
  /** There are more pages than may be. */
  readonly isCut: boolean;
}

async function listedByApi(client: RegistryClient, digest: string): Promise<Listed | undefined> {
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
  const index = await manifestOfTag(client, tagOf(digest));
  return index === undefined ? [] : readIndex(listOf(digest), index);
}

const listOf = (digest: string): string => `the list of signatures of ${digest}`;

/** distribution-spec 1.1, "Referrers Tag Schema". */
const tagOf = (digest: string): string => digest.replace(':', '-');
