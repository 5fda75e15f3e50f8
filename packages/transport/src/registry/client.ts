import { HttpClient, type HttpOptions } from '../http/client.ts';
import { isLoopback } from '../http/addresses.ts';
import { Authority } from './authority.ts';
import type { Reference } from './reference.ts';

interface RegistryOptions extends HttpOptions {
  /** Has the docker config with credentials; not used with `credentials`. */
  readonly env: NodeJS.ProcessEnv;
}

/** One repository of a registry, over the API of the OCI distribution-spec 1.1. */
export class RegistryClient extends HttpClient {
  readonly reference: Reference;

  constructor(reference: Reference, options: RegistryOptions) {
    const { hostname } = new URL(`https://${reference.registry}`);
    const scheme = options.plainHttp || isLoopback(hostname) ? 'http' : 'https';
    super(new URL(`${scheme}://${reference.registry}`), options, (send) => new Authority(reference, options, send));
    this.reference = reference;
  }

  /** The URL of a path in the repository, such as `manifests/latest`. */
  at(path: string): URL {
    return new URL(`${this.origin}/v2/${this.reference.repository}/${path}`);
  }
}
