import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type AddressAndPort,
  parseAddressAndPort,
  planeOf,
  type ReachedFrontend,
  type Services,
} from '@sluice/netfilter';
import type { Generation } from '../../ports/journal.ts';

/** Why a node should not be sent packets for an address, or that it should: SERVED. A code never changes its meaning. */
export type VipCode =
  | 'SERVED'
  | 'NODE_DRAINS'
  | 'ALARM'
  | 'RULES_CHANGED'
  | 'RULES_UNSEEN'
  | 'NO_FRONTEND'
  | 'NO_ENDPOINT'
  | 'FOREIGN_RULE_FIRST'
  | 'PROBE_FAILS'
  | 'PROBE_UNKNOWN';

/** The answer about an address, or about one of its ports. It tells no name of a Service, an endpoint or a program. */
export interface VipAnswer {
  readonly code: VipCode;
  /** One line. */
  readonly reason: string;
  readonly frontends: readonly Omit<ReachedFrontend, 'service'>[];
}

/** What is known of a node's rules apart from their text. `changed`: another program changed them, and they were not compared since. */
export type Doubt = 'changed' | 'unseen' | undefined;

/** What an answer depends on besides the frontend. */
export interface VipFacts {
  readonly isDraining: boolean;
  /** The code of an alarm that the rules may be wrong. */
  readonly alarm: string | undefined;
  readonly doubt: Doubt;
  /** What packets meet, and what is confirmed: twice the same, unless a release is on probation. */
  readonly states: readonly Pick<Services, 'at'>[];
  /** The frontends whose last endpoint is withdrawn, and stays in the rules for the last-endpoint delay: `ipv4 tcp 203.0.113.9 80`. */
  readonly leaving: ReadonlySet<string>;
  /** The Services whose packets a foreign rule takes. */
  readonly taken: ReadonlySet<string>;
  /** Whether the probes of the config that ask this frontend pass; undefined: one has no verdict yet. */
  readonly passes: boolean | undefined;
}

/** Whether packets for an address are served here. A release on probation counts together with the confirmed one. */
export function judgeVip({ address, port }: AddressAndPort, facts: VipFacts): VipAnswer {
  const found = facts.states.map((services) =>
    services.at(address).filter((one) => port === undefined || one.port === port),
  );
  const frontends = found.flat();
  const family = address.includes(':') ? 'ipv6' : 'ipv4';
  const unserved = frontends.find(
    (one) => one.endpoints === 0 || facts.leaving.has(`${family} ${one.protocol} ${address} ${one.port}`),
  );
  const answer = (code: VipCode, reason: string): VipAnswer => ({
    code,
    reason,
    frontends: (found[0] ?? []).map(({ protocol, port: its, policy, endpoints }) => ({
      protocol,
      port: its,
      policy,
      endpoints,
    })),
  });
  if (facts.isDraining) return answer('NODE_DRAINS', 'the node is drained');
  if (facts.alarm !== undefined) return answer('ALARM', `the alarm ${facts.alarm} is open`);
  if (facts.doubt === 'changed') return answer('RULES_CHANGED', 'another program changed the rules');
  if (facts.doubt === 'unseen') return answer('RULES_UNSEEN', 'the rules were not seen lately');
  if (found.length === 0 || found.some((one) => one.length === 0))
    return answer('NO_FRONTEND', 'no confirmed Service has this address and port');
  if (unserved) {
    const where = unserved.policy === 'Local' ? ' on this node' : '';
    const loses = unserved.endpoints === 0 ? 'has no' : 'loses its last';
    return answer('NO_ENDPOINT', `${unserved.protocol} ${unserved.port} ${loses} endpoint${where}`);
  }
  if (frontends.some(({ service }) => service !== undefined && facts.taken.has(service)))
    return answer('FOREIGN_RULE_FIRST', 'a foreign rule takes its packets');
  if (facts.passes === undefined) return answer('PROBE_UNKNOWN', 'its probe has no verdict yet');
  return facts.passes ? answer('SERVED', 'served') : answer('PROBE_FAILS', 'its probe fails');
}

/** What answers depend on, read when one is asked for. */
interface VipDependencies {
  readonly journal: { readonly active: Generation | undefined; readonly undecided: Generation | undefined };
  readonly alarm: () => string | undefined;
  readonly drain: { readonly now: unknown; answers(address: string): void };
  /** As `VipFacts.passes`. */
  readonly passes: (frontend: AddressAndPort) => boolean | undefined;
}

/** Answers those who announce an address: BGP daemons, VRRP daemons, kube-vip. */
export class Vips {
  readonly #parts: VipDependencies;
  #taken: ReadonlySet<string> = new Set();
  #leaving: ReadonlySet<string> = new Set();
  #doubt: () => Doubt = () => 'unseen';
  /** By their state: an index of 10,000 Services is made once for each. */
  readonly #known = new WeakMap<object, Services>();

  constructor(parts: VipDependencies) {
    this.#parts = parts;
  }

  /** @param doubt of the rules, once the daemon runs */
  watches(doubt: () => Doubt): void {
    this.#doubt = doubt;
  }

  /** These frontends, and no others, lose their last endpoint soon. */
  leaves(frontends: readonly string[]): void {
    this.#leaving = new Set(frontends);
  }

  /** Takes an event of a transaction: of foreign rules it says whose packets they take. */
  onEvent(event: string, details: Readonly<Record<string, unknown>>): void {
    if (event !== 'order') return;
    const { taking } = details as { readonly taking: readonly { readonly services: readonly string[] }[] };
    this.#taken = new Set(taking.flatMap(({ services }) => services));
  }

  /** The answer of now. */
  about(frontend: AddressAndPort): VipAnswer {
    const { journal, alarm, drain, passes } = this.#parts;
    const states = [journal.active, journal.undecided].flatMap((one) => (one ? this.#read(one.state) : []));
    return judgeVip(frontend, {
      isDraining: drain.now !== undefined,
      alarm: alarm(),
      doubt: this.#doubt(),
      states,
      leaving: this.#leaving,
      taken: this.#taken,
      passes: passes(frontend),
    });
  }

  /** Answers `GET /vip/ADDRESS[:PORT]`: one line, or JSON where the client accepts that. @returns whether the path is one of these */
  answer(request: IncomingMessage, response: ServerResponse): boolean {
    const { url = '', method } = request;
    if (!url.startsWith(vipPath)) return false;
    const text = url.slice(vipPath.length);
    const frontend = parseAddressAndPort(text);
    if (method !== 'GET' && method !== 'HEAD') send(response, 405, 'only GET');
    else if (!frontend) send(response, 400, `not ${vipForm}`);
    else {
      this.#parts.drain.answers(request.socket.remoteAddress ?? '');
      const answer = this.about(frontend);
      const status = answer.code === 'SERVED' ? 200 : 503;
      if (request.headers.accept === 'application/json')
        response
          .writeHead(status, { 'content-type': 'application/json', ...noSniff })
          .end(`${JSON.stringify({ frontend: text, ...answer })}\n`);
      else send(response, status, `${answer.code}: ${answer.reason}`);
    }
    return true;
  }

  #read(state: Generation['state']): Services {
    const known = this.#known.get(state) ?? planeOf(state).read(state);
    this.#known.set(state, known);
    return known;
  }
}

const vipPath = '/vip/';
/** What is behind the path, and in `vip.frontends` of the config. */
export const vipForm =
  'ADDRESS or ADDRESS:PORT in canonical spelling, such as 203.0.113.9:80, [2001:db8::9]:80 or 2001:db8::9';
const noSniff = { 'x-content-type-options': 'nosniff' };

function send(response: ServerResponse, status: number, line: string): void {
  response.writeHead(status, { 'content-type': 'text/plain', ...noSniff }).end(`${line}\n`);
}
