import type { Answer, Question } from './exchange.ts';
import { exchange, TooLarge } from './exchange.ts';
import { Authority } from './authority.ts';
import { backOff, mayPass, RegistryFailure, unlikely } from './failure.ts';
import { registryLimits } from './limits.ts';
import { isLoopback, type Reference } from './reference.ts';

export interface ClientOptions {
  /** Plain HTTP also to a registry that is not on this machine. */
  readonly plainHttp: boolean;
  readonly env: NodeJS.ProcessEnv;
}

/** One repository of a registry, over the API of the OCI distribution-spec 1.1. */
export class RegistryClient {
  readonly reference: Reference;
  readonly #origin: string;
  readonly #plainHttp: boolean;
  readonly #authority: Authority;

  constructor(reference: Reference, { plainHttp, env }: ClientOptions) {
    this.reference = reference;
    this.#plainHttp = plainHttp;
    const host = new URL(`https://${reference.registry}`).hostname;
    this.#origin = `${plainHttp || isLoopback(host) ? 'http' : 'https'}://${reference.registry}`;
    this.#authority = new Authority(reference, env, (url, question) => this.#send(url, question));
  }

  /** The address of something in the repository, such as `manifests/latest`. */
  at(path: string): URL {
    return new URL(`${this.#origin}/v2/${this.reference.repository}/${path}`);
  }

  /**
   * Asks the registry, with credentials where it wants them, and follows where it sends us.
   * @param what named in problems
   * @returns the answer when its status is one of those that are good
   * @throws RegistryFailure otherwise
   */
  async ask(what: string, url: URL, question: Question, good: readonly number[]): Promise<Answer> {
    let { answer, from } = await this.#follow(url, question);
    // Whoever else says where credentials are to be brought would get them.
    const mayAsk = answer.status === 401 && this.#isOwn(from);
    if (mayAsk && (await this.#authority.renew(answer))) ({ answer, from } = await this.#follow(url, question));
    if (good.includes(answer.status)) return answer;
    throw this.#isOwn(from) ? refused(what, this.reference.registry, answer) : astray(what, from, answer);
  }

  #isOwn(url: URL): boolean {
    return url.origin === new URL(this.#origin).origin;
  }

  /** @returns the last answer, and the address that it came from */
  async #follow(start: URL, question: Question): Promise<{ readonly answer: Answer; readonly from: URL }> {
    let url = start;
    for (let hops = 0; hops <= registryLimits.redirectsMax; hops++) {
      // A storage behind the registry must not learn what opens the registry.
      const own = this.#isOwn(url) ? this.#authority.headers() : {};
      const answer = await this.#send(url, { ...question, headers: { ...question.headers, ...own } });
      const to = answer.status >= 300 && answer.status < 400 ? answer.headers.location : undefined;
      const mayFollow = question.method === 'GET' || question.method === 'HEAD';
      if (to === undefined || !mayFollow || answer.status === 304) return { answer, from: url };
      url = this.next(to, url);
    }
    const hint = 'Look at the configuration of the registry';
    throw new RegistryFailure('REGISTRY_INVALID', `Cannot follow ${start.href}: it goes on and on`, hint);
  }

  /**
   * Where a registry sends us: its text is an address, in full or from here.
   * @throws RegistryFailure when it leads from TLS to plain text, or to something that is no address
   */
  next(to: string, from: URL): URL {
    const url = URL.canParse(to, from.href) ? new URL(to, from) : undefined;
    const isPlain =
      url?.protocol === 'http:' && (this.#plainHttp || (isLoopback(url.hostname) && from.protocol === 'http:'));
    if (url !== undefined && (url.protocol === 'https:' || isPlain) && url.username === '') return url;
    const hint = 'Look at the configuration of the registry; --plain-http is for those without TLS';
    throw new RegistryFailure(
      'REGISTRY_INVALID',
      `Cannot go from ${from.origin} to ${JSON.stringify(to.slice(0, 200))}`,
      hint,
    );
  }

  /** Again after what may pass, where sending twice does no harm. */
  async #send(url: URL, question: Question): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt === registryLimits.attemptsMax || !(question.mayRepeat ?? question.method !== 'POST');
      try {
        const answer = await exchange(url, question);
        if (isLast || !mayPass(answer.status)) return answer;
      } catch (error) {
        if (error instanceof TooLarge) throw unlikely(`what ${url.origin} sends`, error.message);
        if (isLast) throw unreachable(url, error as Error);
      }
      await backOff(attempt);
    }
  }
}

function unreachable(url: URL, { message }: Error): RegistryFailure {
  const hint =
    'Check the name, the network, HTTPS_PROXY and NO_PROXY; a certificate of your own goes into NODE_EXTRA_CA_CERTS';
  return new RegistryFailure('REGISTRY_UNREACHABLE', `Cannot reach ${url.origin}: ${message}`, hint);
}

function refused(what: string, registry: string, { status, body }: Answer): RegistryFailure {
  const said = wordsOf(body);
  const why = `${registry} answered ${status}${said === '' ? '' : ` (${said})`}`;
  const isAccess = status === 401 || status === 403;
  const hint = isAccess
    ? `Log in (docker login ${registry}) with an account that may do it`
    : status === 404
      ? 'Check the repository, the tag and the digest'
      : 'Read what the registry says, and its log';
  return new RegistryFailure(isAccess ? 'REGISTRY_ACCESS' : 'REGISTRY_INVALID', `Cannot ${what}: ${why}`, hint, status);
}

/** Nobody logs in where a registry leads to. */
function astray(what: string, { host }: URL, { status }: Answer): RegistryFailure {
  const message = `Cannot ${what}: ${host}, where the registry led, answered ${status}`;
  return new RegistryFailure('REGISTRY_INVALID', message, 'Look at the configuration of the registry', status);
}

/** The first words of the registry's own error, without anything that moves a cursor. */
function wordsOf(body: Buffer): string {
  const text = body.toString('utf8', 0, 2000);
  const [, message] = /"message"\s*:\s*"([^"]{1,200})/.exec(text) ?? [];
  return (message ?? '').replaceAll(/[^\x20-\x7e]/g, '?');
}
