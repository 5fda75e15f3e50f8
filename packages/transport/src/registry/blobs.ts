import { fileDigest } from '@sluice/bundle';
import { type OciDescriptor, mediaTypes } from './artifact.ts';
import type { RegistryClient } from './client.ts';
import { backOff, mayPass, RegistryFailure, invalidContent } from './failure.ts';
import { registryLimits } from './limits.ts';

const answerBytesMax = registryLimits.tokenBytesMax;

/**
 * Uploads a blob, unless the registry has it. An interrupted upload is restarted, after checking whether the registry has the complete
 * blob.
 * @returns whether it was sent
 */
export async function pushBlob(client: RegistryClient, { digest }: OciDescriptor, bytes: Uint8Array): Promise<boolean> {
  if (await hasBlob(client, digest)) return false;
  for (let attempt = 1; ; attempt++) {
    try {
      await upload(client, digest, bytes);
      return true;
    } catch (error) {
      if (attempt === registryLimits.attemptsMax || !isBrokenOff(error)) throw error;
    }
    await backOff(attempt);
    if (await hasBlob(client, digest)) return true;
  }
}

async function hasBlob(client: RegistryClient, digest: string): Promise<boolean> {
  const question = { method: 'HEAD', bytesMax: answerBytesMax } as const;
  const { status } = await client.ask(`look for ${digest}`, client.at(`blobs/${digest}`), question, [200, 404]);
  return status === 200;
}

/** Uploads in one request. A repeated start is harmless: registries discard unfinished uploads. */
async function upload(client: RegistryClient, digest: string, bytes: Uint8Array): Promise<void> {
  const start = client.at('blobs/uploads/');
  const open = { method: 'POST', mayRepeat: true, bytesMax: answerBytesMax } as const;
  const opened = await client.ask(`send ${digest}`, start, open, [202]);
  const place = client.next(opened.headers.location ?? '', start);
  place.searchParams.set('digest', digest);
  const headers = { 'content-type': 'application/octet-stream' };
  const send = { method: 'PUT', mayRepeat: false, headers, body: bytes, bytesMax: answerBytesMax } as const;
  await client.ask(`send ${digest}`, place, send, [201]);
}

/** Whether the network, the registry or the upload session failed: distribution-spec 1.1, "Pushing a blob", has 404 or 416 for the last. */
function isBrokenOff(error: unknown): boolean {
  if (!(error instanceof RegistryFailure)) return false;
  const { status, problem } = error;
  return status === undefined
    ? problem.code === 'REGISTRY_UNREACHABLE'
    : mayPass(status) || [404, 416].includes(status);
}

/**
 * Fetches a blob.
 * @param bytesMax a larger descriptor is refused before fetching
 * @throws RegistryFailure also when the bytes do not match the descriptor
 */
export async function pullBlob(
  client: RegistryClient,
  { digest, size }: OciDescriptor,
  bytesMax: number,
): Promise<Buffer> {
  if (size > bytesMax) throw invalidContent(digest, `it is ${size} bytes, and the limit is ${bytesMax}`);
  const question = { method: 'GET', bytesMax: size } as const;
  const { body } = await client.ask(`fetch ${digest}`, client.at(`blobs/${digest}`), question, [200]);
  if (body.length !== size || `sha256:${fileDigest(body)}` !== digest)
    throw invalidContent(digest, 'its bytes do not match the digest');
  return body;
}

/** Uploads a manifest under its tag or digest. @returns whether the registry maintains the list of referrers */
export async function pushManifest(
  client: RegistryClient,
  name: string,
  mediaType: string,
  bytes: Buffer,
): Promise<{ readonly tracksSubject: boolean }> {
  const headers = { 'content-type': mediaType };
  const question = { method: 'PUT', headers, body: bytes, bytesMax: answerBytesMax } as const;
  const answer = await client.ask(`write the manifest ${name}`, client.at(`manifests/${name}`), question, [201]);
  return { tracksSubject: answer.headers['oci-subject'] !== undefined };
}

/** Fetches a manifest by its digest. */
export async function pullManifest(client: RegistryClient, digest: string): Promise<Buffer> {
  const body = await findManifest(client, digest, [200]);
  if (body === undefined || `sha256:${fileDigest(body)}` !== digest)
    throw invalidContent(digest, 'its bytes do not match the digest');
  return body;
}

/** The current manifest of a tag; undefined if there is none. */
export function manifestOfTag(client: RegistryClient, tag: string): Promise<Buffer | undefined> {
  return findManifest(client, tag, [200, 404]);
}

async function findManifest(
  client: RegistryClient,
  name: string,
  good: readonly number[],
): Promise<Buffer | undefined> {
  const headers = { accept: `${mediaTypes.manifest}, ${mediaTypes.index}` };
  const question = { method: 'GET', headers, bytesMax: registryLimits.manifestBytesMax } as const;
  const answer = await client.ask(`fetch the manifest ${name}`, client.at(`manifests/${name}`), question, good);
  return answer.status === 200 ? answer.body : undefined;
}
