import { join } from 'node:path';
import { BlobCache } from '@sluice/transport/content/cache.ts';
import { eventsPath, eventsType, readEvents } from '@sluice/transport/content/events.ts';
import { layoutContent, webReader } from '@sluice/transport/content/layout.ts';
import { registryContent } from '@sluice/transport/content/registry.ts';
import { KeptAgents } from '@sluice/transport/http/agents.ts';
import { authorization, type HttpOptions } from '@sluice/transport/http/client.ts';
import { invalidContent } from '@sluice/transport/http/failure.ts';
import { WebClient } from '@sluice/transport/http/web.ts';
import { openReceipts } from '@sluice/transport/receipts/open.ts';
import type { ReceiptSpec } from '@sluice/transport/receipts/spec.ts';
import type { ReceiptStore } from '@sluice/transport/receipts/store.ts';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import { reasonOf, type RemoteAccess } from '@sluice/cli';
import type { ConnectionConfig, PushConfig, SourceConfig } from '../config-source.ts';
import { findTool } from '../kernel/tools.ts';
import { ContentSource, type PlacedParts } from './content.ts';
import { type CredentialsParts, readAuthorities, readCredentials, readIdentity, secretPath } from './credentials.ts';
import { GitSource } from './git.ts';
import { ListedSource, Servers } from './servers.ts';
import { type FoundRelease, type Source, SourceFailure, type SourceFiles } from './source.ts';
import { fileDigest, isReleaseFile } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { InboxError } from '../inbox/trust.ts';
import { descend } from '../inbox/descend.ts';
import { walk } from '../inbox/walk.ts';

/**
 * The source of the config, for one attempt each.
 * @returns opens it; reading certificates throws SourceFailure
 */
export function sourceOf(
  config: SourceConfig,
  node: string,
  parts: CredentialsParts,
  servers = serversOf(config),
): () => Source {
  const placed: PlacedParts = { layers: new Set(), digests: new Set() };
  const { directory } = config;
  const own = { cache: new BlobCache(join(directory, 'blobs')), node, placed };
  const kept = config.https?.events === true ? new KeptAgents() : undefined;
  return () => {
    const { oci, https, git, dir } = config;
    if (git)
      return new GitSource({
        ...git,
        ...config,
        directory: join(directory, 'git'),
        access: () => gitAccess(config, parts),
        signal: AbortSignal.timeout(config.secondsMax * 1000),
      });
    if (https) {
      const at = (url: string, secondsMax: number): Source => {
        const client = new WebClient(url, { ...httpOptions({ ...config, secondsMax }, parts), ...(kept && { kept }) });
        const content = layoutContent(url, webReader(client, servers.memory(url)));
        return new ContentSource({ ...own, content, client, reference: https });
      };
      return new ListedSource(servers, https.tag, at, config.secondsMax);
    }
    const reference = readReference(oci?.reference ?? '');
    if (!reference) return new DirectorySource(dir?.path ?? '/');
    const client = new RegistryClient(reference, { ...httpOptions(config, parts), env: {} });
    const { digest, tag = '' } = reference;
    const named = digest === undefined ? { tag } : { digest };
    return new ContentSource({ ...own, content: registryContent(client), client, reference: named });
  };
}

/** The servers of a source of kind https; none of another kind. */
export const serversOf = ({ https }: SourceConfig): Servers => new Servers([https?.url ?? []].flat());

/**
 * The events of a server of the source, until it ends the connection or nothing comes any more.
 * @param signal ends it
 * @returns the `ETag` of its `index.json`, first the present one
 * @throws RegistryFailure, SourceFailure
 */
export async function* eventsOf(
  config: SourceConfig,
  parts: CredentialsParts,
  url: string,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const { bytesMax: _bytesMax, secondsMax: _secondsMax, ...options } = httpOptions(config, parts);
  const client = new WebClient(url, { ...options, signal });
  const at = client.at(eventsPath);
  try {
    const { body, headers } = await client.open(`follow ${at.href}`, at, { accept: eventsType });
    if (headers['content-type'] !== eventsType) {
      body.destroy();
      throw invalidContent(at.href, 'it is not a stream of events');
    }
    yield* readEvents(at.href, body);
  } finally {
    client.close();
  }
}

/** Of the answers to one transfer of receipts. */
const transferLimits = { bytesMax: 1024 * 1024, secondsMax: 60 } as const;

/**
 * The store that `receipts.push` of `sluiced.yaml` names, for one transfer: what its requests may use up together is bounded.
 * @throws RegistryFailure for a URL that is not permitted, SourceFailure for certificates that cannot be read
 */
export function receiptStoreOf(push: PushConfig, parts: CredentialsParts): ReceiptStore {
  const http = httpOptions({ ...push, ...transferLimits }, parts);
  return openReceipts(specOf(push), { http, env: {}, git: () => gitAccess(push, parts) });
}

function specOf({ oci, https, git, dir }: PushConfig): ReceiptSpec {
  const reference = readReference(oci?.reference ?? '');
  if (reference) return { kind: 'oci', reference };
  if (https) return { kind: 'https', url: new URL(https.url) };
  return git ? { kind: 'git', url: git.url } : { kind: 'dir', path: dir?.path ?? '/' };
}

/** @throws SourceFailure for certificates that cannot be read */
function httpOptions(
  config: ConnectionConfig & Pick<SourceConfig, 'bytesMax' | 'secondsMax' | 'bytesPerSecondMax'>,
  parts: CredentialsParts,
): HttpOptions {
  const { bytesMax, bytesPerSecondMax, caFile, credentials, https, oci, proxy, secondsMax } = config;
  return {
    bytesMax,
    secondsMax,
    plainHttp: oci?.plainHttp === true,
    ...(bytesPerSecondMax === undefined ? {} : { bytesPerSecondMax }),
    ...(caFile === undefined ? {} : { ca: readAuthorities(caFile) }),
    ...(https?.certificateFile === undefined ? {} : { identity: readIdentity(https.certificateFile) }),
    ...(proxy === undefined ? {} : { proxy }),
    // Never those of a docker config of this machine.
    credentials: () => readCredentials(credentials, parts),
  };
}

/**
 * git gets a password in a header, and ssh the path of a key.
 * @throws SourceFailure for credentials that cannot be read
 */
async function gitAccess(config: ConnectionConfig, parts: CredentialsParts): Promise<RemoteAccess> {
  const { caFile, credentials, git, proxy } = config;
  const url = new URL(git?.url ?? '');
  const protocol = url.protocol.slice(0, -1) as RemoteAccess['protocol'];
  const access = { caFile, proxy, protocol };
  if (protocol === 'ssh') {
    const key = credentials === undefined || 'exec' in credentials ? undefined : secretPath(credentials, parts);
    const knownHosts = git?.knownHosts ?? '';
    return { ...access, ssh: { file: findTool('ssh') ?? '/usr/bin/ssh', key, knownHosts } };
  }
  const given = await readCredentials(credentials, parts);
  if (given === undefined) return access;
  return { ...access, header: { url: `${url.origin}/`, line: `Authorization: ${authorization(given)}` } };
}

/** A release in a directory that others write: a stick, a shared file system. Who wrote it does not matter: its signatures decide. */
export class DirectorySource implements Source {
  readonly name: string;
  readonly bytes = 0;

  constructor(path: string) {
    this.name = path;
  }

  /** The files that tell releases apart: the sums of all others, and what may be added to it later. */
  async look(): Promise<string> {
    const own = [...this.#files(isReleaseFile)].map(([path, text]) => `${path} ${fileDigest(text)}\n`);
    return fileDigest(own.toSorted(compareText).join(''));
  }

  async open(check: (top: SourceFiles) => Promise<string>): Promise<FoundRelease> {
    const top = this.#files(isReleaseFile);
    await check(top);
    return { top, read: (wanted) => [this.#files((path) => wanted.has(path))] };
  }

  #files(isNeeded: (path: string) => boolean): SourceFiles {
    try {
      using top = descend(this.name, undefined);
      const files = new Map<string, string>();
      walk(top, undefined, (file) => {
        if (isNeeded(file.path)) files.set(file.path, file.read().bytes.toString('utf8'));
      });
      return files;
    } catch (error) {
      if (!(error instanceof InboxError) && (error as NodeJS.ErrnoException).code === undefined) throw error;
      const hint = 'Check that it is mounted, and readable for user sluice-fetch';
      throw new SourceFailure('SOURCE_UNREACHABLE', `Cannot read ${this.name}: ${reasonOf(error)}`, hint);
    }
  }
}
