import { type ChildProcess, spawn } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import { Host } from '../../netns/cluster-host.ts';
import { nodeAddress, servers } from './cluster.ts';
import type { WitnessEvent } from './witness.ts';

/** The address of the API server, in the namespace of the bench. */
export const apiAddress = '10.255.0.1';
const linkAddress = '10.255.0.2';

/** Milliseconds of a clock that the witness shares. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

export async function setUpApiAddress(): Promise<void> {
  await execa('ip', ['link', 'set', 'lo', 'up']);
  await execa('ip', ['addr', 'add', `${apiAddress}/32`, 'dev', 'lo']);
}

let links = 0;

/**
 * A node with a wire to the API server, which serves two endpoints itself. Packets that no rule translates go to the API server's
 * namespace, which forwards nothing.
 * @param address of its end of the wire: another one for each node that lives at the same time
 */
export async function startNode(address = linkAddress): Promise<Host> {
  const host = await Host.start('node');
  const link = `node${links++}`;
  const batch = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');
  await execa('ip', ['-batch', '-'], {
    input: batch([
      `link add ${link} type veth peer name eth0 netns ${host.pid}`,
      `link set ${link} up`,
      `route add ${address}/32 dev ${link}`,
    ]),
  });
  const own = [nodeAddress, ...servers].map((one) => `addr add ${one}/32 dev lo`);
  const wire = [`addr add ${address}/32 dev eth0`, 'link set eth0 up', `route add ${apiAddress}/32 dev eth0`];
  const input = batch(['link set lo up', ...own, ...wire, `route add default via ${apiAddress} dev eth0 onlink`]);
  await host.run(['/usr/sbin/ip', '-batch', '-'], { input });
  return host;
}

/** The process namespace of programs on a node, as /proc prints it. */
export const processNamespace = (host: Host): string => readlinkSync(`/proc/${host.pid}/ns/pid_for_children`);

type EventOf<K extends WitnessEvent['kind']> = Extract<WitnessEvent, { kind: K }>;

/** The client and the servers of `witness.ts`, in the network namespace of a node and outside of its processes. */
export class WitnessProcess {
  readonly #child: ChildProcess;
  readonly #events: WitnessEvent[] = [];
  readonly #ended: Promise<never>;
  #wake = Promise.withResolvers<void>();

  constructor(host: Host, services: readonly string[]) {
    const program = join(import.meta.dirname, 'witness.ts');
    const argv = [`--target=${host.pid}`, '--net', '--', process.execPath, program, services.join(), servers.join()];
    this.#child = spawn('nsenter', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#ended = new Promise((_resolve, reject) =>
      this.#child.once('exit', () => reject(new Error('the witness has ended'))),
    );
    this.#ended.catch(() => {});
    createInterface({ input: this.#child.stdout! }).on('line', (line) => {
      this.#events.push(JSON.parse(line) as WitnessEvent);
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    });
  }

  /** Waits until all these Services have answered. @returns when the last of them was probed */
  async answered(services: readonly string[], timeoutMs: number): Promise<number> {
    const of = (service: string): EventOf<'answered'> | undefined =>
      this.#events.find((one): one is EventOf<'answered'> => one.kind === 'answered' && one.service === service);
    await this.#until('every Service to answer', timeoutMs, () => services.every(of));
    return Math.max(...services.map((service) => of(service)?.at ?? 0));
  }

  /** Waits for an answer of a server since then. @returns when the first packet that it answered was sent */
  async moved(to: string, since: number, timeoutMs: number): Promise<number> {
    const found = (): EventOf<'moved'> | undefined =>
      this.#events.find((one): one is EventOf<'moved'> => one.kind === 'moved' && one.to === to && one.at >= since);
    await this.#until(`an answer of ${to}`, timeoutMs, () => found() !== undefined);
    return found()?.at ?? 0;
  }

  /** The packets sent and lost since the last call, up to a second ago. */
  async count(): Promise<EventOf<'count'>> {
    const before = this.#events.length;
    this.#child.stdin!.write('\n');
    const found = (): EventOf<'count'> | undefined =>
      this.#events.slice(before).find((one): one is EventOf<'count'> => one.kind === 'count');
    await this.#until('a count', 10_000, () => found() !== undefined);
    return found() as EventOf<'count'>;
  }

  async close(): Promise<void> {
    this.#child.stdin!.end();
    await this.#ended.catch(() => {});
  }

  async #until(what: string, timeoutMs: number, isSo: () => boolean): Promise<void> {
    const end = now() + timeoutMs;
    while (!isSo()) {
      const timer = Promise.withResolvers<void>();
      const left = setTimeout(timer.resolve, Math.max(0, end - now()));
      await Promise.race([this.#wake.promise, timer.promise, this.#ended]);
      clearTimeout(left);
      if (!isSo() && now() >= end) throw new Error(`timed out after ${timeoutMs / 1000} s, waiting for ${what}`);
    }
  }
}
