import { ForbiddenAddress, isLoopback, localKind } from './addresses.ts';
import { Agents, type KeptAgents } from './agents.ts';
import { Budget, OverBudget } from './budget.ts';
import {
  type HttpRequest,
  type HttpResponse,
  exchange,
  Interrupted,
  type OpenResponse,
  openResponse,
  TooLarge,
  TooSlow,
} from './exchange.ts';
import { backOff, invalidContent, mayPass, RegistryFailure } from './failure.ts';
import { registryLimits } from './limits.ts';

/** A user with a password, or a token: of a registry its identity token, elsewhere a bearer token. */
export type Credentials =
  | { readonly kind: 'password'; readonly user: string; readonly password: string }
  | { readonly kind: 'token'; readonly token: string };

/** The `Authorization` header for credentials: of a token, a bearer token. */
export const authorization = (given: Credentials): string =>
  given.kind === 'token'
    ? `Bearer ${given.token}`
    : `Basic ${Buffer.from(`${given.user}:${given.password}`).toString('base64')}`;

/** How servers are reached, and what all requests of one client may use up together. */
export interface HttpOptions {
  /** Use HTTP, also to another machine. */
  readonly plainHttp?: boolean;
  /** Certificates of authorities (PEM) that are trusted besides those of the system. */
  readonly ca?: string;
  /** The certificate of the client with its key (PEM), for a server that asks for one. */
  readonly identity?: string;
  /** Connections that the client shares with others, and does not end. */
  readonly kept?: KeptAgents;
  /** `http://proxy.example.com:3128`. Default: `HTTPS_PROXY` and `NO_PROXY` of the process, for TLS alone. */
  readonly proxy?: string;
  /** Called when a server asks, and again when it refuses what it got; undefined: none. Its errors end the request. */
  readonly credentials?: () => Promise<Credentials | undefined> | Credentials | undefined;
  /** The greatest average rate of all responses together, in bytes per second; at least 10,000. */
  readonly bytesPerSecondMax?: number;
  /** Of all responses together. */
  readonly bytesMax?: number;
  /** From the making of the client. */
  readonly secondsMax?: number;
  /** Ends every request; it is not repeated. */
  readonly signal?: AbortSignal;
}

/** How a client shows a server who it is. */
export interface Access {
  headers(): Promise<Readonly<Record<string, string>>> | Readonly<Record<string, string>>;
  /**
   * Handles a 401 of the server.
   * @returns whether there are new credentials to try
   * @throws RegistryFailure
   */
  renew(answer: HttpResponse): Promise<boolean>;
  /** What to do where the server refuses access. */
  readonly hint: string;
}

/** A client of one server, which alone gets credentials. */
export class HttpClient {
  /** For messages: `registry.example.com:5000`. */
  readonly host: string;
  readonly origin: string;
  /** Bytes of all bodies of responses so far. */
  get bytes(): number {
    return this.#budget.bytes;
  }
  readonly #plainHttp: boolean;
  readonly #access: Access;
  readonly #agents: Agents;
  readonly #isKept: boolean;
  readonly #budget: Budget;
  /** What the server's own address is, if it is none of another machine: it may then send us to such addresses. */
  #ownKind: string | undefined;

  /** @param access made with the way to send a request, for token servers */
  constructor(
    server: URL,
    options: HttpOptions,
    access: (send: (url: URL, request: HttpRequest) => Promise<HttpResponse>) => Access,
  ) {
    this.host = server.host;
    this.origin = server.origin;
    this.#plainHttp = options.plainHttp === true;
    this.#isKept = options.kept !== undefined;
    this.#agents = options.kept?.for(options) ?? new Agents(options);
    this.#budget = new Budget(options);
    this.#access = access((url, request) => this.#send(url, request));
  }

  /** Ends connections, unless they are kept for others. A request afterwards makes new ones. */
  close(): void {
    if (!this.#isKept) this.#agents.close();
  }

  /**
   * Sends a request, with credentials if the server asks for them, and follows redirects.
   * @param what the action, for problems
   * @returns the response, if its status is in `good`
   * @throws RegistryFailure otherwise
   */
  async ask(what: string, url: URL, request: HttpRequest, good: readonly number[]): Promise<HttpResponse> {
    let { answer, from } = await this.#follow(url, request);
    // Another host must not direct where credentials are sent.
    const mayAsk = answer.status === 401 && this.#isOwn(from);
    if (mayAsk && (await this.#access.renew(answer))) ({ answer, from } = await this.#follow(url, request));
    if (good.includes(answer.status)) return answer;
    throw this.#isOwn(from) ? refused(what, this.host, answer, this.#access.hint) : redirectRefused(what, from, answer);
  }

  /**
   * Opens a response that has no end. It is not requested again, and no redirect is followed.
   * @param what the action, for problems
   * @returns once its headers have come; its reader bounds its body
   * @throws RegistryFailure unless its status is 200
   */
  async open(what: string, url: URL, headers: Readonly<Record<string, string>>): Promise<OpenResponse> {
    const question = { method: 'GET', headers: { ...headers, ...(await this.#access.headers()) } } as const;
    const connection = { ...this.#addressesOf(url), agents: this.#agents, budget: this.#budget };
    const answer = await openResponse(url, question, connection).catch((error: unknown) => {
      throw unreachable(url, (error as Error).message);
    });
    if (answer.status === 200) return answer;
    answer.body.destroy();
    throw refused(what, this.host, { ...answer, body: Buffer.alloc(0) }, this.#access.hint);
  }

  #isOwn(url: URL): boolean {
    return url.origin === this.origin;
  }

  /** @returns the last response and its URL */
  async #follow(start: URL, request: HttpRequest): Promise<{ readonly answer: HttpResponse; readonly from: URL }> {
    let url = start;
    for (let hops = 0; hops <= registryLimits.redirectsMax; hops++) {
      // A storage backend must not see the credentials of the server.
      const own = this.#isOwn(url) ? await this.#access.headers() : {};
      const answer = await this.#send(url, { ...request, headers: { ...request.headers, ...own } });
      const to = answer.status >= 300 && answer.status < 400 ? answer.headers.location : undefined;
      const mayFollow = request.method === 'GET' || request.method === 'HEAD';
      if (to === undefined || !mayFollow || answer.status === 304) return { answer, from: url };
      url = this.next(to, url);
    }
    const hint = 'Check the configuration of the server';
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
    const hint = 'Check the configuration of the server; use --plain-http (plainHttp) for one without TLS';
    throw new RegistryFailure(
      'REGISTRY_INVALID',
      `Cannot follow a redirect from ${from.origin} to ${JSON.stringify(to.slice(0, 200))}: it is not a permitted URL`,
      hint,
    );
  }

  /** Redirects, upload locations, links and token servers: the server chooses their addresses. */
  #addressesOf(url: URL): Parameters<typeof exchange>[2] {
    if (this.#isOwn(url)) return { connected: (address) => (this.#ownKind = localKind(address)) };
    const refuses = (address: string): string | undefined => {
      const kind = localKind(address);
      return kind === this.#ownKind ? undefined : kind;
    };
    return { refuses };
  }

  /** Retries temporary failures of requests that may be repeated; of a body that was interrupted, only the rest is requested. */
  async #send(url: URL, request: HttpRequest): Promise<HttpResponse> {
    const mayRepeat = request.mayRepeat ?? request.method !== 'POST';
    /** The part of a body that came before its connection ended, and the longest one so far. */
    let start: HttpResponse | undefined;
    let longest = 0;
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt >= registryLimits.attemptsMax || !mayRepeat;
      try {
        const headers = { ...request.headers, ...rangeHeaders(start) };
        const connection = { ...this.#addressesOf(url), agents: this.#agents, budget: this.#budget };
        const answer = joined(start, await exchange(url, { ...request, headers }, connection));
        if (answer === undefined) throw new Error('it answers the request for the rest of a file with another part');
        if (answer.status === 200 && answer.body.length > request.bytesMax) throw new TooLarge(request.bytesMax);
        if (isLast || !mayPass(answer.status)) return answer;
      } catch (error) {
        this.#giveUp(url, error, isLast);
        start = error instanceof Interrupted ? joined(start, error.start) : undefined;
        const length = start?.body.length ?? 0;
        if (length > request.bytesMax) this.#giveUp(url, new TooLarge(request.bytesMax), true);
        // A server that ends each connection early is asked again as long as it gives much.
        if (length - longest >= registryLimits.progressBytes) attempt = 0;
        longest = Math.max(longest, length);
      }
      await backOff(Math.max(attempt, 1), this.#budget.signal).catch(() => this.#giveUp(url, undefined, false));
    }
  }

  /** @throws RegistryFailure where another attempt is useless */
  #giveUp(url: URL, error: unknown, isLast: boolean): void {
    const ended = this.#budget.ended();
    if (ended !== undefined) throw unreachable(url, ended);
    if (error instanceof TooLarge) throw invalidContent(`the response of ${url.origin}`, error.message);
    if (error instanceof OverBudget) throw overBudget(url, error);
    if (error instanceof ForbiddenAddress) throw ledAstray(url, error);
    if (isLast || error instanceof TooSlow) throw unreachable(url, (error as Error).message);
  }
}

function unreachable(url: URL, why: string): RegistryFailure {
  const hint =
    'Check the name, the clock, the network, HTTPS_PROXY and NO_PROXY; pass a private CA with NODE_EXTRA_CA_CERTS (sluiced: caFile)';
  return new RegistryFailure('REGISTRY_UNREACHABLE', `Cannot reach ${url.origin}: ${why}`, hint);
}

function overBudget(url: URL, { message }: OverBudget): RegistryFailure {
  const hint = 'Check the size of the release and what else the server sends; then raise the bound';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot read more from ${url.origin}: ${message}`, hint);
}

function ledAstray(url: URL, { message }: ForbiddenAddress): RegistryFailure {
  const hint = 'Check the configuration of the server: it names this address, and is not there itself';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot send a request to ${url.origin}: ${message}`, hint);
}

function refused(what: string, host: string, { status, body }: HttpResponse, login: string): RegistryFailure {
  const detail = wordsOf(body);
  const why = `${host} answered ${status}${detail === '' ? '' : ` (${detail})`}`;
  const isAccess = status === 401 || status === 403;
  const hint = isAccess
    ? login
    : status === 404
      ? 'Check the address, the tag and the digest'
      : 'Check the log of the server';
  return new RegistryFailure(isAccess ? 'REGISTRY_ACCESS' : 'REGISTRY_INVALID', `Cannot ${what}: ${why}`, hint, status);
}

/** A failure at the target of a redirect, where logging in does not help. */
function redirectRefused(what: string, { host }: URL, { status }: HttpResponse): RegistryFailure {
  const message = `Cannot ${what}: the server redirected to ${host}, which answered ${status}`;
  return new RegistryFailure('REGISTRY_INVALID', message, 'Check the configuration of the server', status);
}

/** The start of the server's error message, without control characters. */
function wordsOf(body: Buffer): string {
  const text = body.toString('utf8', 0, 2000);
  const [, message] = /"message"\s*:\s*"([^"]{1,200})/.exec(text) ?? [];
  return (message ?? '').replaceAll(/[^\x20-\x7e]/g, '?');
}

// Only a strong `ETag` says that bytes are the same: RFC 9110, section 13.1.5.
const strongEtag = ({ headers: { etag } }: HttpResponse): string | undefined =>
  etag?.startsWith('"') ? etag : undefined;

/** The headers of a request for the rest of a body (RFC 9110, section 14.2); none without a start. */
function rangeHeaders(start: HttpResponse | undefined): Readonly<Record<string, string>> {
  if (start === undefined || start.body.length === 0) return {};
  const etag = strongEtag(start);
  return { range: `bytes=${start.body.length}-`, ...(etag === undefined ? {} : { 'if-range': etag }) };
}

/**
 * The response with the whole body, of its start and the response to a request for the rest. A server may send all of it instead (200).
 * @returns undefined where it sent another part, or of another version: the body has to be requested from its start
 */
function joined(start: HttpResponse | undefined, answer: HttpResponse): HttpResponse | undefined {
  if (start === undefined || ![206, 416].includes(answer.status)) return answer;
  const [before, etag] = [strongEtag(start), strongEtag(answer)];
  const isSame = before === undefined || etag === undefined || etag === before;
  const [, from] = /^bytes (\d{1,15})-\d{1,15}\/(?:\d{1,15}|\*)$/.exec(answer.headers['content-range'] ?? '') ?? [];
  if (answer.status === 416 || !isSame || Number(from) !== start.body.length) return undefined;
  return { ...start, body: Buffer.concat([start.body, answer.body]) };
}
