import { readFileSync } from 'node:fs';
import { isIPv4, isIPv6 } from 'node:net';
import { parse } from 'yaml';

/** `packets.yaml` of an example: which client opens a connection to which target, and the expected results. */
export interface PacketTable {
  readonly outside: OutsideMachine;
  /** Pods that are not endpoints, such as clients. */
  readonly pods: readonly ClientPod[];
  /** Ports on which nodes answer by themselves, as `32000/tcp`. */
  readonly listen: Readonly<Record<string, readonly string[]>>;
  readonly packets: readonly Row[];
}

export interface OutsideMachine {
  readonly addresses: readonly string[];
  readonly ports: readonly string[];
}

export interface ClientPod {
  readonly name: string;
  readonly node: string;
  readonly addresses: readonly string[];
}

export interface Row {
  readonly title: string;
  /** A pod, a node or `outside`. */
  readonly from: string;
  /** One of the sender's addresses; its first of the family when absent. */
  readonly source?: string;
  /** The node at which traffic from outside for a VIP enters. */
  readonly via?: string;
  readonly to: Target;
  readonly expect: readonly Verdict[];
  /** True: the Service has affinity, so every connection of one client meets the same endpoint. */
  readonly stays: boolean;
}

export interface Target {
  readonly address: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
}

/**
 * The result of a connection: the machine that answers, with `masquerade ` before it when it sees a node's address;
 * `reject` (refused at once), `drop` (no answer at all), `accept` (a rule lets it in as it is), `pass` (no Service rule decided).
 */
export type Verdict = string;

const defaultOutside: OutsideMachine = { addresses: ['198.51.100.10'], ports: [] };

/** @throws when a row is not of the form that the examples' README.md describes */
export function readPacketTable(file: string): PacketTable {
  const raw = parse(readFileSync(file, 'utf8')) as RawTable;
  const packets = raw.packets.map((row) => ({
    ...row,
    to: readTarget(row.to),
    expect: row.expect.split('|').map((verdict) => verdict.trim()),
    stays: row.stays ?? false,
  }));
  const outside = { ...defaultOutside, ...raw.outside };
  return { outside, pods: raw.pods ?? [], listen: raw.listen ?? {}, packets };
}

type RawTable = Partial<Omit<PacketTable, 'packets'>> & { readonly packets: readonly RawRow[] };
type RawRow = Omit<Row, 'to' | 'expect' | 'stays'> & {
  readonly to: string;
  readonly expect: string;
  readonly stays?: boolean;
};

const targetForm = /^(?:\[([0-9a-f:]+)\]|([0-9.]+)):(\d+)\/(tcp|udp|sctp)$/;

function readTarget(text: string): Target {
  const match = targetForm.exec(text);
  const address = match?.[1] ?? match?.[2] ?? '';
  if (!match || !(isIPv4(address) || isIPv6(address))) {
    throw new Error(`Cannot read the target ${text}: it is not of the form 10.96.0.10:80/tcp or [fd00::1]:53/udp`);
  }
  return { address, port: Number(match[3]), protocol: match[4] as Target['protocol'] };
}
