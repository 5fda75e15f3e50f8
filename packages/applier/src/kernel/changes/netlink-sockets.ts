import { readdirSync, readlinkSync } from 'node:fs';
import { readText } from '../open-file.ts';

/** What the kernel says of a socket that listens for changes of nf_tables. */
interface Listening {
  /** What was sent to it and not read. */
  readonly unreadBytes: number;
  /** Messages that did not fit. */
  readonly dropped: number;
}

/** A process with such a socket. */
export interface Listener {
  readonly pid: number;
  readonly inode: string;
}

const netfilterProtocol = '12';
/** NFNLGRP_NFTABLES is 7, counted from 1. */
const nftGroup = 1 << 6;

/** @param text `/proc/PID/net/netlink` @returns the sockets that listen for changes of nf_tables, by inode */
export function nftSockets(text: string): ReadonlyMap<string, Listening> {
  const found = new Map<string, Listening>();
  for (const line of text.split('\n')) {
    const [, protocol, , groups = '', unread, , , , dropped, inode] = line.trim().split(/ +/);
    if (protocol !== netfilterProtocol || inode === undefined) continue;
    if ((Number.parseInt(groups, 16) & nftGroup) === 0) continue;
    found.set(inode, { unreadBytes: Number(unread), dropped: Number(dropped) });
  }
  return found;
}

/** @returns what the kernel says of this socket; undefined: the process has ended or closed it, or the kernel does not tell */
export function listeningOf({ pid, inode }: Listener): Listening | undefined {
  return socketsAround(pid).get(inode);
}

/** Of the network namespace of a process. */
const socketsAround = (pid: number): ReadonlyMap<string, Listening> =>
  nftSockets(readText(`/proc/${pid}/net/netlink`) ?? '');

/** The socket with which a process listens. @returns undefined: it does not listen yet, has ended, or its files may not be looked at */
export function listenerOf(pid: number): Listener | undefined {
  const sockets = socketsAround(pid);
  try {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
      if (inode !== undefined && sockets.has(inode)) return { pid, inode };
    }
  } catch {
    // It has ended.
  }
  return undefined;
}

/** What the scheduler does with a process. */
type Activity = 'runs' | 'stopped' | 'ended';

export function activityOf(pid: number): Activity {
  // The name of a program may hold anything, also a parenthesis.
  const state = /^.*\) (\w)/s.exec(readText(`/proc/${pid}/stat`) ?? '')?.[1];
  if (state === undefined || state === 'Z' || state === 'X') return 'ended';
  return state === 'T' || state === 't' ? 'stopped' : 'runs';
}
