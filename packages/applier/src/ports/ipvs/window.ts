import { plural } from '@sluice/netfilter';
import type { IpvsKernel } from './ports.ts';

/** What the end of mode ipvs cost: packets that IPVS forwards belong to connections that began before other rules came first. */
export interface IpvsWindow {
  /** How long the removal of addresses, virtual servers and sets took, in milliseconds. */
  readonly removedInMs: number;
  /** How long it was waited for connections to end, in milliseconds. */
  readonly waitedMs: number;
  /** Established connections that IPVS still forwarded then: they ended. Left out: they could not be counted. */
  readonly ended?: number;
}

/** For people. */
export function describeWindow({ ended, waitedMs, removedInMs }: IpvsWindow): string {
  const count =
    ended === undefined ? 'an unknown number of established connections' : plural(ended, 'established connection');
  return `mode ipvs: new connections always had rules; ${count} that IPVS forwarded remained open for ${Math.round(waitedMs / 1000)} s, and ended when its addresses and virtual servers were removed, in ${removedInMs} ms`;
}

/** Who counts and who waits. */
interface WindowDependencies {
  readonly ipvs: Pick<IpvsKernel, 'connections'>;
  readonly clock: { bootMs(): number; sleep(ms: number): Promise<unknown> };
}

/** The end of virtual servers. */
interface IpvsEnd {
  /** Their keys. */
  readonly servers: readonly string[];
  /** How long connections may take to end, at most. */
  readonly waitMs: number;
  /** Removes them, with sets and addresses. @param open how many established connections there still are; undefined: it is unknown */
  readonly remove: (open: number | undefined) => Promise<unknown>;
  /** Is called once, with the number of established connections, if these are waited for. */
  readonly onWait?: (open: number) => void;
}

/**
 * How many established connections IPVS forwards to virtual servers.
 * @param servers their keys
 * @throws KernelError
 */
export async function countEstablished(
  servers: Iterable<string>,
  { ipvs }: Pick<WindowDependencies, 'ipvs'>,
): Promise<number> {
  const connections = await ipvs.connections('established');
  const counts = [...servers].flatMap((key) => [...(connections.get(key)?.values() ?? [])]);
  return counts.reduce((sum, one) => sum + one, 0);
}

/**
 * Removes virtual servers, once IPVS forwards no established connection to them or the time is over. Others lose nothing: a client of UDP is
 * served by what follows with its next packet, and IPVS remembers an ended connection of TCP for two minutes. Where connections cannot be
 * counted they are not waited for: what is to go must not stay because of a figure.
 * @throws KernelError of the removal
 */
export async function endIpvs(end: IpvsEnd, parts: WindowDependencies): Promise<IpvsWindow> {
  const { clock } = parts;
  const began = clock.bootMs();
  const ended = await untilIdle(end, began, parts);
  const start = clock.bootMs();
  await end.remove(ended);
  const window = { waitedMs: Math.round(start - began), removedInMs: Math.round(clock.bootMs() - start) };
  return ended === undefined ? window : { ...window, ended };
}

/** @returns how many established connections there still are; undefined: they could not be counted */
async function untilIdle(
  { servers, waitMs, onWait }: IpvsEnd,
  began: number,
  parts: WindowDependencies,
): Promise<number | undefined> {
  const { clock } = parts;
  // Counting takes time, too.
  const leftMs = (): number => waitMs - (clock.bootMs() - began);
  const count = (): Promise<number | undefined> => countEstablished(servers, parts).catch(() => undefined);
  let open = await count();
  if (open !== undefined && open > 0 && waitMs > 0) onWait?.(open);
  while (open !== undefined && open > 0 && leftMs() > 0) {
    await clock.sleep(Math.min(leftMs(), idlePauseMs));
    open = await count();
  }
  return open;
}

/** Between two counts. */
const idlePauseMs = 1_000;
