import { KernelError } from '../../ports/failure.ts';
import {
  type Family,
  findSet,
  type IpSet,
  ipvsInterface,
  type IpvsTimeouts,
  readServerLine,
  type RealServer,
  type VirtualServer,
  virtualKey,
} from '@sluice/netfilter';
import type { Connections } from '../../ports/ipvs/drain.ts';
import type { IpvsKernel } from '../../ports/ipvs/ports.ts';
import { isGenerationName } from '../../ports/ipvs/sets.ts';
import type { KnownIpvs, ObservedIpvs, IpvsStep } from '../../ports/ipvs/values.ts';

type FakeServer = Omit<VirtualServer, 'real'> & { readonly real: Map<string, RealServer> };
type FakeSet = Omit<IpSet, 'entries'> & { entries: Set<string> };

/**
 * A kernel with mode ipvs in memory. It takes batches line by line, as the tools do: `ipset` and `ip` stop at the first wrong line,
 * `ipvsadm` continues after it.
 */
export class FakeIpvs implements IpvsKernel {
  readonly taken: IpvsStep[] = [];
  /** Connections for `connections`, all of them established, which a test sets. */
  readonly open = new Map<string, Map<string, number>>();
  /** Fails this step (counting from 0) after this many of its lines. */
  failAt: { readonly step: number; readonly lines: number } | undefined;
  readonly #servers = new Map<string, FakeServer>();
  readonly #sets = new Map<string, FakeSet>();
  #bound: Record<Family, Set<string>> | undefined;
  readonly #elsewhere: Record<Family, ReadonlySet<string>>;
  #timeouts: IpvsTimeouts = { tcp: 900, tcpFin: 120, udp: 300 };

  constructor(elsewhere: Partial<Record<Family, readonly string[]>> = {}) {
    this.#elsewhere = { ipv4: new Set(elsewhere.ipv4), ipv6: new Set(elsewhere.ipv6) };
  }

  /** A reboot. */
  clear(): void {
    this.#servers.clear();
    this.#sets.clear();
    this.#bound = undefined;
    this.#timeouts = { tcp: 900, tcpFin: 120, udp: 300 };
  }

  /** `ipvsadm -C`. */
  clearServers(): void {
    this.#servers.clear();
  }

  async observe(known: KnownIpvs = {}): Promise<ObservedIpvs> {
    const { servers, timeouts, sets, addresses } = known;
    return { ...this.list(), ...servers, ...timeouts, ...sets, ...addresses };
  }

  /** What the kernel holds, read at once. */
  list(): ObservedIpvs {
    const { ipv4, ipv6 } = this.#bound ?? {};
    return {
      servers: new Map([...this.#servers].map(([key, one]) => [key, { ...one, real: new Map(one.real) }])),
      foreign: new Set(),
      sets: new Map([...this.#sets].map(([name, one]) => [name, { ...one, entries: new Set(one.entries) }])),
      bound: ipv4 && ipv6 ? { ipv4: new Set(ipv4), ipv6: new Set(ipv6) } : undefined,
      elsewhere: this.#elsewhere,
      timeouts: this.#timeouts,
    };
  }

  async connections(): Promise<Connections> {
    return this.open;
  }

  async apply(step: IpvsStep): Promise<void> {
    const lines = step.text.trimEnd().split('\n');
    const fails = this.failAt?.step === this.taken.length ? this.failAt.lines : lines.length;
    this.taken.push(step);
    const refusals: unknown[] = [];
    for (const line of lines.slice(0, fails)) {
      try {
        this.#take(step.kind, line);
      } catch (error) {
        if (step.kind !== 'ipvsadm') throw error;
        refusals.push(error);
      }
    }
    if (refusals.length > 0) throw refusals[0];
    if (fails < lines.length) throw new KernelError(`fake ${step.kind}`, 'it fails here', 'refused');
  }

  #take(kind: IpvsStep['kind'], line: string): void {
    if (kind === 'ipset') this.#takeSet(line);
    else if (kind === 'ip') this.#takeAddress(line);
    else this.#takeServer(line);
  }

  #takeServer(line: string): void {
    const [verb = '', , , , endpoint = ''] = line.split(' ');
    if (verb === '--set') this.#takeTimeouts(line);
    else if (verb === '-D') {
      if (!this.#servers.delete(keyOf(line))) throw refused(line, 'there is no such virtual server');
    } else if (verb === '-d') {
      if (!this.#servers.get(keyOf(line))?.real.delete(endpoint)) throw refused(line, 'there is no such real server');
    } else if (verb === '-A' || verb === '-E') {
      const read = readServerLine(line.replace('-E', '-A'));
      if ('error' in read || read.kind !== 'virtual') throw refused(line, 'it is not read');
      const before = this.#servers.get(keyOf(line));
      if ((before === undefined) === (verb === '-E')) throw refused(line, before ? 'it is there' : 'it is not there');
      this.#servers.set(virtualKey(read.server), { ...read.server, real: before?.real ?? new Map() });
    } else {
      const read = readServerLine(line.replace('-e', '-a'));
      if ('error' in read || read.kind !== 'real') throw refused(line, 'it is not read');
      const real = this.#servers.get(keyOf(line))?.real;
      if (!real || real.has(endpoint) === (verb === '-a')) throw refused(line, 'its real server is, or is not, there');
      real.set(endpoint, read.server);
    }
  }

  #takeTimeouts(line: string): void {
    const read = readServerLine(line);
    if ('error' in read || read.kind !== 'timeouts') throw refused(line, 'it is not read');
    const { tcp, tcpFin, udp } = read.timeouts;
    const has = this.#timeouts;
    this.#timeouts = { tcp: tcp || has.tcp, tcpFin: tcpFin || has.tcpFin, udp: udp || has.udp };
  }

  #takeSet(line: string): void {
    const [verb = '', name = '', third = '', ...options] = line.split(' ');
    const set = this.#sets.get(name);
    if (verb === 'create') {
      const max = options[options.indexOf('maxelem') + 1];
      const family = options.includes('inet6') || findSet(name)?.family === 'ipv6' ? 'ipv6' : 'ipv4';
      const size = third.startsWith('hash:') ? { maxElements: Number(max) } : {};
      if (!set) this.#sets.set(name, { name, type: third as IpSet['type'], family, ...size, entries: new Set() });
      return;
    }
    if (!set || !(findSet(name) || isGenerationName(name))) throw refused(line, 'there is no such set');
    const other = this.#sets.get(third);
    if (verb === 'add' && set.entries.size < (set.maxElements ?? 65_536)) set.entries.add(third);
    else if (verb === 'del') set.entries.delete(third);
    else if (verb === 'destroy') this.#sets.delete(name);
    else if (verb === 'swap' && other?.type === set.type && other.family === set.family) {
      this.#sets.set(name, { ...other, name });
      this.#sets.set(third, { ...set, name: third });
    } else throw refused(line, 'it is not taken');
  }

  #takeAddress(line: string): void {
    const [what, verb, third = ''] = line.split(' ');
    if (what === 'link') {
      if ((verb === 'add') === (this.#bound !== undefined)) throw refused(line, 'the interface is, or is not, there');
      this.#bound = verb === 'add' ? { ipv4: new Set(), ipv6: new Set() } : undefined;
      return;
    }
    const address = third.slice(0, third.indexOf('/'));
    const bound = this.#bound?.[address.includes(':') ? 'ipv6' : 'ipv4'];
    if (!bound || !line.includes(`dev ${ipvsInterface}`)) throw refused(line, 'there is no such interface');
    if (bound.has(address) === (verb === 'add')) throw refused(line, 'the address is, or is not, there');
    if (verb === 'add') bound.add(address);
    else bound.delete(address);
  }
}

const protocols: Readonly<Record<string, string>> = { '-t': 'TCP', '-u': 'UDP', '--sctp-service': 'SCTP' };

function keyOf(line: string): string {
  const [, option = '', name = ''] = line.split(' ');
  return `${name}/${protocols[option] ?? ''}`;
}

function refused(line: string, why: string): KernelError {
  return new KernelError('fake ipvs', `${why}: ${line}`, 'refused');
}
