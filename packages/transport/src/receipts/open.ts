import type { HttpOptions } from '../http/client.ts';
import { WebClient } from '../http/web.ts';
import { credentialsFor } from '../registry/authority.ts';
import { RegistryClient } from '../registry/client.ts';
import { directoryReceipts } from './directory.ts';
import { type GitAccess, gitReceipts } from './git.ts';
import { ociReceipts } from './oci.ts';
import type { ReceiptSpec } from './spec.ts';
import type { ReceiptStore } from './store.ts';
import { webReceipts } from './web.ts';

/** How stores are reached. */
export interface ReceiptAccess {
  /** Without `credentials`, those of the docker config count, by the host. */
  readonly http: HttpOptions;
  readonly env: NodeJS.ProcessEnv;
  readonly git: GitAccess;
}

/**
 * The store that a spec names. Nothing is read yet.
 * @throws RegistryFailure for a URL that is not permitted
 */
export function openReceipts(spec: ReceiptSpec, { http, env, git }: ReceiptAccess): ReceiptStore {
  switch (spec.kind) {
    case 'oci':
      return ociReceipts(spec.reference, (reference) => new RegistryClient(reference, { ...http, env }));
    case 'https': {
      const { href, host } = spec.url;
      return webReceipts(new WebClient(href, { credentials: () => credentialsFor(host, env), ...http }));
    }
    case 'git':
      return gitReceipts(spec.url, git);
    case 'dir':
      return directoryReceipts(spec.path);
  }
}
