import { isLoopback } from './addresses.ts';
import { type Access, authorization, HttpClient, type HttpOptions } from './client.ts';
import { RegistryFailure } from './failure.ts';

/** A web server with files below a URL, which gets credentials without asking for them. */
export class WebClient extends HttpClient {
  readonly #base: string;

  /**
   * @param url such as `https://cdn.example.com/sluice`
   * @throws RegistryFailure for a URL that is not permitted: without TLS to another machine, with a password or a query
   */
  constructor(url: string, options: HttpOptions) {
    const base = URL.canParse(url) ? new URL(url) : undefined;
    const isPlain = base?.protocol === 'http:' && (options.plainHttp === true || isLoopback(base.hostname));
    if (!base || !(base.protocol === 'https:' || isPlain) || `${base.username}${base.search}${base.hash}` !== '')
      throw notPermitted(url);
    super(base, options, () => new Presented(options.credentials));
    this.#base = `${base.origin}${base.pathname.replace(/\/+$/, '')}`;
  }

  /** The URL of a path below that of the server, such as `index.json`. */
  at(path: string): URL {
    return new URL(`${this.#base}/${path}`);
  }
}

/** Credentials of a configuration. Web servers and object stores often answer 403 or 404 without them, and ask for none. */
class Presented implements Access {
  readonly hint = 'Check the credentials, and what they may read';
  readonly #credentials: HttpOptions['credentials'];
  #header: Promise<string | undefined> | undefined;

  constructor(credentials: HttpOptions['credentials']) {
    this.#credentials = credentials;
  }

  async headers(): Promise<Readonly<Record<string, string>>> {
    this.#header ??= this.#read();
    const header = await this.#header;
    return header === undefined ? {} : { authorization: header };
  }

  /** A token may have expired. */
  async renew(): Promise<boolean> {
    const before = await this.#header;
    this.#header = this.#read();
    return (await this.#header) !== before;
  }

  async #read(): Promise<string | undefined> {
    const credentials = await this.#credentials?.();
    return credentials && authorization(credentials);
  }
}

function notPermitted(url: string): RegistryFailure {
  const shown = JSON.stringify(url.replace(/\/\/[^/@]*@/, '//…@').slice(0, 200));
  const hint =
    'Write it as https://cdn.example.com/sluice; --plain-http (plainHttp) permits http, credentials have their own place';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot use ${shown}: it is not a permitted URL`, hint);
}
