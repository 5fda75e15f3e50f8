import { type Descriptor, descriptorOf, mediaTypes, printIndex, readIndex } from './artifact.ts';
import { manifestOfTag, pushManifest } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { type RegistryFailure, unlikely } from './failure.ts';
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
  const listed = await listedByTag(client, subject.digest, keepAll);
  if (listed.some(({ digest }) => digest === own.digest)) return;
  await pushManifest(client, tagOf(subject.digest), mediaTypes.index, printIndex([...listed, own]));
}

type PassOver = (why: RegistryFailure) => void;

/** Who writes the list anew keeps every entry of it, or does not write. */
const keepAll: PassOver = (why) => {
  throw why;
};

export interface Referrers {
  /** Sorted by digest. */
  readonly referrers: readonly Descriptor[];
  /** Why others do not count, in words for people. */
  readonly passedOver: readonly string[];
}

/** What refers to a manifest: by the API of OCI 1.1, or by the tag where the registry does not know it. */
export async function referrersOf(client: RegistryClient, digest: string): Promise<Referrers> {
  const passedOver: string[] = [];
  const passOver: PassOver = ({ message }) => void passedOver.push(message);
  const found = (await listedByApi(client, digest, passOver)) ?? (await listedByTag(client, digest, passOver));
  return { referrers: found.toSorted((a, b) => (a.digest < b.digest ? -1 : 1)), passedOver };
}

async function listedByApi(
  client: RegistryClient,
  digest: string,
  passOver: PassOver,
): Promise<readonly Descriptor[] | undefined> {
  const found: Descriptor[] = [];
  let url: URL | undefined = client.at(`referrers/${digest}`);
  for (let page = 0; url !== undefined; page++) {
    if (page >= registryLimits.pagesMax || found.length > registryLimits.referrersMax)
      throw unlikely(`the list of signatures of ${digest}`, 'it goes on and on');
    const question = {
      method: 'GET',
      headers: { accept: mediaTypes.index },
      bytesMax: registryLimits.manifestBytesMax,
    } as const;
    const answer = await client.ask(`list the signatures of ${digest}`, url, question, [200, 404]);
    const type = answer.headers['content-type']?.split(';')[0]?.trim();
    if (answer.status === 404 || type !== mediaTypes.index) return undefined;
    found.push(...readIndex(`the list of signatures of ${digest}`, answer.body, passOver));
    const [, next] = /<([^>]+)>\s*;\s*rel="?next"?/i.exec([answer.headers['link'] ?? ''].flat().join()) ?? [];
    url = next === undefined ? undefined : client.next(next, url);
  }
  return found;
}

async function listedByTag(client: RegistryClient, digest: string, passOver: PassOver): Promise<readonly Descriptor[]> {
  const index = await manifestOfTag(client, tagOf(digest));
  return index === undefined ? [] : readIndex(`the list of signatures of ${digest}`, index, passOver);
}

/** distribution-spec 1.1, "Referrers Tag Schema". */
const tagOf = (digest: string): string => digest.replace(':', '-');
