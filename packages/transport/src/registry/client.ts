import { ForbiddenAddress, localKind } from './addresses.ts';
import { type RegistryResponse, type RegistryRequest, exchange, TooLarge, TooSlow } from './exchange.ts';
import { Authority } from './authority.ts';
import { backOff, mayPass, RegistryFailure, invalidContent } from './failure.ts';
import { registryLimits } from './limits.ts';
import { isLoopback, type Reference } from './reference.ts';

interface ClientOptions {
  /** Use HTTP, also for a registry on another machine. */
  readonly plainHttp: boolean;
  readonly env: NodeJS.ProcessEnv;
}

/** One repository of a registry, over the API of the OCI distribution-spec 1.1. */
export class RegistryClient {
  readonly reference: Reference;
  readonly #origin: string;
  readonly #plainHttp: boolean;
  readonly #authority: Authority;
  /** What the registry's own address is, if it is none of another machine: it may then send us to such addresses. */
  #ownKind: string | undefined;

  constructor(reference: Reference, { plainHttp, env }: ClientOptions) {
    this.reference = reference;
    this.#plainHttp = plainHttp;
    const host = new URL(`https://${reference.registry}`).hostname;
    this.#origin = `${plainHttp || isLoopback(host) ? 'http' : 'https'}://${reference.registry}`;
    this.#authority = new Authority(reference, env, (url, question) => this.#send(url, question));
  }

  /** The URL of a path in the repository, such as `manifests/latest`. */
  at(path: string): URL {
    return new URL(`${this.#origin}/v2/${this.reference.repository}/${path}`);
  }

  /**
   * Sends a request, with credentials if the registry asks for them, and follows redirects.
   * @param what the action, for problems
   * @returns the response, if its status is in `good`
   * @throws RegistryFailure otherwise
   */
  async ask(what: string, url: URL, question: RegistryRequest, good: readonly number[]): Promise<RegistryResponse> {
    let { answer, from } = await this.#follow(url, question);
    // Another host must not direct where credentials are sent.
    const mayAsk = answer.status === 401 && this.#isOwn(from);
    if (mayAsk && (await this.#authority.renew(answer))) ({ answer, from } = await this.#follow(url, question));
    if (good.includes(answer.status)) return answer;
    throw this.#isOwn(from) ? refused(what, this.reference.registry, answer) : redirectRefused(what, from, answer);
  }

  #isOwn(url: URL): boolean {
    return url.origin === new URL(this.#origin).origin;
  }

  /** @returns the last response and its URL */
  async #follow(
    start: URL,
    question: RegistryRequest,
  ): Promise<{ readonly answer: RegistryResponse; readonly from: URL }> {
    let url = start;
    for (let hops = 0; hops <= registryLimits.redirectsMax; hops++) {
      // A storage backend must not see the credentials of the registry.
      const own = this.#isOwn(url) ? this.#authority.headers() : {};
      const answer = await this.#send(url, { ...question, headers: { ...question.headers, ...own } });
      const to = answer.status >= 300 && answer.status < 400 ? answer.headers.location : undefined;
      const mayFollow = question.method === 'GET' || question.method === 'HEAD';
      if (to === undefined || !mayFollow || answer.status === 304) return { answer, from: url };
      url = this.next(to, url);
    }
    const hint = 'Check the configuration of the registry';
    throw new RegistryFailure('REGISTRY_INVALID', `Cannot follow ${start.href}: redirect loop`, hint);
  }

  /**
   * Resolves the target of a redirect or a link, absolute or relative.
   * @throws RegistryFailure for a redirect from TLS to plain text, or an invalid URL
   */
  next(to: string, from: URL): URL {
    const url = URL.canParse(to, from.href) ? new URL(to, from) : undefined;
    const isPlain =
      url?.protocol === 'http:' && (this.#plainHttp || (isLoopback(url.hostname) && from.protocol === 'http:'));
    if (url !== undefined && (url.protocol === 'https:' || isPlain) && url.username === '') return url;
    const hint = 'Check the configuration of the registry; use --plain-http for one without TLS';
    throw new RegistryFailure(
      'REGISTRY_INVALID',
      `Cannot follow a redirect from ${from.origin} to ${JSON.stringify(to.slice(0, 200))}: it is not a permitted URL`,
      hint,
    );
  }

  /** Redirects, upload locations, links and token servers: the registry chooses their addresses. */
  #addressesOf(url: URL): Parameters<typeof exchange>[2] {
    if (this.#isOwn(url)) return { connected: (address) => (this.#ownKind = localKind(address)) };
    const refuses = (address: string): string | undefined => {
      const kind = localKind(address);
      return kind === this.#ownKind ? undefined : kind;
    };
    return { refuses };
  }

  /** Retries temporary failures of requests that may be repeated. */
  async #send(url: URL, question: RegistryRequest): Promise<RegistryResponse> {
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt === registryLimits.attemptsMax || !(question.mayRepeat ?? question.method !== 'POST');
      try {
        const answer = await exchange(url, question, this.#addressesOf(url));
        if (isLast || !mayPass(answer.status)) return answer;
      } catch (error) {
        if (error instanceof TooLarge) throw invalidContent(`the response of ${url.origin}`, error.message);
        if (error instanceof ForbiddenAddress) throw ledAstray(url, error);
        if (isLast || error instanceof TooSlow) throw unreachable(url, error as Error);
      }
      await backOff(attempt);
    }
  }
}

function unreachable(url: URL, { message }: Error): RegistryFailure {
  const hint = 'Check the name, the network, HTTPS_PROXY and NO_PROXY; pass a private CA with NODE_EXTRA_CA_CERTS';
  return new RegistryFailure('REGISTRY_UNREACHABLE', `Cannot reach ${url.origin}: ${message}`, hint);
}

function ledAstray(url: URL, { message }: ForbiddenAddress): RegistryFailure {
  const hint = 'Check the configuration of the registry: it names this address, and is not there itself';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot send a request to ${url.origin}: ${message}`, hint);
}

function refused(what: string, registry: string, { status, body }: RegistryResponse): RegistryFailure {
  const detail = wordsOf(body);
  const why = `${registry} answered ${status}${detail === '' ? '' : ` (${detail})`}`;
  const isAccess = status === 401 || status === 403;
  const hint = isAccess
    ? `Log in with a permitted account: docker login ${registry}`
    : status === 404
      ? 'Check the repository, the tag and the digest'
      : 'Check the log of the registry';
  return new RegistryFailure(isAccess ? 'REGISTRY_ACCESS' : 'REGISTRY_INVALID', `Cannot ${what}: ${why}`, hint, status);
}

/** A failure at the target of a redirect, where logging in does not help. */
function redirectRefused(what: string, { host }: URL, { status }: RegistryResponse): RegistryFailure {
  const message = `Cannot ${what}: the registry redirected to ${host}, which answered ${status}`;
  return new RegistryFailure('REGISTRY_INVALID', message, 'Check the configuration of the registry', status);
}

/** The start of the registry's error message, without control characters. */
function wordsOf(body: Buffer): string {
  const text = body.toString('utf8', 0, 2000);
  const [, message] = /"message"\s*:\s*"([^"]{1,200})/.exec(text) ?? [];
  return (message ?? '').replaceAll(/[^\x20-\x7e]/g, '?');
}
