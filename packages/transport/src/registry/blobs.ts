import { fileDigest } from '@sluice/bundle';
import { type OciDescriptor, mediaTypes } from './artifact.ts';
import type { RegistryClient } from './client.ts';
import { backOff, mayPass, RegistryFailure } from '../http/failure.ts';
import { registryLimits } from '../http/limits.ts';
import { isDigest } from './reference.ts';

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
 * Fetches a blob. Its digest is not verified.
 * @param bytesMax more are an error
 * @throws RegistryFailure
 */
export async function readBlob(client: RegistryClient, digest: string, bytesMax: number): Promise<Buffer> {
  const question = { method: 'GET', bytesMax } as const;
  return (await client.ask(`fetch ${digest}`, client.at(`blobs/${digest}`), question, [200])).body;
}

/** Uploads a manifest under its tag or digest. @returns whether the registry maintains the list of referrers */
export async function pushManifest(
  client: RegistryClient,
  name: string,
  mediaType: string,
  bytes: Uint8Array,
): Promise<{ readonly tracksSubject: boolean }> {
  const headers = { 'content-type': mediaType };
  const question = { method: 'PUT', headers, body: bytes, bytesMax: answerBytesMax } as const;
  const answer = await client.ask(`write the manifest ${name}`, client.at(`manifests/${name}`), question, [201]);
  return { tracksSubject: answer.headers['oci-subject'] !== undefined };
}

/**
 * Fetches a manifest by its tag or digest, which is not verified.
 * @param good the statuses that are no failure
 * @returns undefined for a status other than 200
 * @throws RegistryFailure
 */
export async function readManifestBytes(
  client: RegistryClient,
  name: string,
  good: readonly number[] = [200],
): Promise<Buffer | undefined> {
  const headers = { accept: manifestTypes };
  const question = { method: 'GET', headers, bytesMax: registryLimits.manifestBytesMax } as const;
  const answer = await client.ask(`fetch the manifest ${name}`, client.at(`manifests/${name}`), question, good);
  return answer.status === 200 ? answer.body : undefined;
}

/**
 * The digest of a tag. A HEAD request does not count as a pull where registries limit these.
 * @throws RegistryFailure
 */
export async function digestOfTag(client: RegistryClient, tag: string): Promise<string> {
  const question = { method: 'HEAD', headers: { accept: manifestTypes }, bytesMax: answerBytesMax } as const;
  const { headers } = await client.ask(`find the tag ${tag}`, client.at(`manifests/${tag}`), question, [200]);
  const digest = headers['docker-content-digest'];
  if (isDigest(digest)) return digest;
  return `sha256:${fileDigest((await readManifestBytes(client, tag)) ?? '')}`;
}

const manifestTypes = `${mediaTypes.manifest}, ${mediaTypes.index}`;
