import { join } from 'node:path';
import { BlobCache } from '@sluice/transport/content/cache.ts';
import { layoutContent, webReader } from '@sluice/transport/content/layout.ts';
import { registryContent } from '@sluice/transport/content/registry.ts';
import { authorization, type HttpOptions } from '@sluice/transport/http/client.ts';
import { WebClient } from '@sluice/transport/http/web.ts';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import type { RemoteAccess } from '@sluice/cli';
import type { SourceConfig } from '../config-source.ts';
import { findTool } from '../kernel/tools.ts';
import { ContentSource, type PlacedParts } from './content.ts';
import { type CredentialsParts, readAuthorities, readCredentials, secretPath } from './credentials.ts';
import { DirectorySource } from './directory.ts';
import { GitSource } from './git.ts';
import type { Source } from './source.ts';

/**
 * The source of the config, for one attempt each.
 * @returns opens it; reading certificates throws SourceFailure
 */
export function sourceOf(config: SourceConfig, node: string, parts: CredentialsParts): () => Source {
  const placed: PlacedParts = { layers: new Set(), digests: new Set() };
  const { directory } = config;
  const cache = new BlobCache(join(directory, 'blobs'));
  const web = {};
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
      const client = new WebClient(https.url, httpOptions(config, parts));
      const content = layoutContent(https.url, webReader(client, web));
      return new ContentSource({ content, client, reference: https, cache, node, placed });
    }
    const reference = readReference(oci?.reference ?? '');
    if (!reference) return new DirectorySource(dir?.path ?? '/');
    const client = new RegistryClient(reference, {
      ...httpOptions(config, parts),
      plainHttp: oci?.plainHttp === true,
      env: {},
    });
    const { digest, tag = '' } = reference;
    const content = registryContent(client);
    return new ContentSource({
      content,
      client,
      reference: digest === undefined ? { tag } : { digest },
      cache,
      node,
      placed,
    });
  };
}

function httpOptions(config: SourceConfig, parts: CredentialsParts): HttpOptions {
  const { bytesMax, bytesPerSecondMax, caFile, credentials, proxy, secondsMax } = config;
  return {
    bytesMax,
    secondsMax,
    ...(bytesPerSecondMax === undefined ? {} : { bytesPerSecondMax }),
    ...(caFile === undefined ? {} : { ca: readAuthorities(caFile) }),
    ...(proxy === undefined ? {} : { proxy }),
    // Never those of a docker config of this machine.
    credentials: () => readCredentials(credentials, parts),
  };
}

/** git gets a password in a header, and ssh the path of a key. */
async function gitAccess(config: SourceConfig, parts: CredentialsParts): Promise<RemoteAccess> {
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
