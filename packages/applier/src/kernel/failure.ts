import { basename } from 'node:path';
import { quoted } from '@sluice/bundle';
import { type FailureKind, KernelError } from '../ports/failure.ts';
import type { ToolResult } from './command.ts';

/**
 * What the tools print when they fail, by kind; the first that matches counts. The exit code alone says little: a shell, a wrapper and a
 * loader of libraries have the same ones.
 */
const words: readonly (readonly [FailureKind, RegExp])[] = [
  // Part of an upgrade: the file of a library or of an extension is away.
  [
    'missing',
    /error while loading shared libraries|symbol lookup error|Exec format error|: (?:not found|Permission denied)$|Couldn't load (?:match|target)|No such file or directory: (?:exec|spawn)/m,
  ],
  [
    'busy',
    /xtables lock|can't open lock file|Resource temporarily unavailable|Interrupted system call|Device or resource busy \(lock/i,
  ],
  // Not `Too many open files in system`: so the kernel says that a set of nft is full.
  [
    'short',
    /Cannot allocate memory|Memory allocation (?:problem|failure)|Out of memory|No space left on device|No buffer space|Too many open files(?! in system)|Input\/output error|Read-only file system|Disk quota/i,
  ],
  ['denied', /Operation not permitted|you must be root/],
];

/**
 * How the tools begin what they say: iptables, nft and ip, ipset, conntrack; ipvsadm has no beginning, but a few texts (libipvs.c). What has
 * no such line was not said by the tool.
 */
const said =
  /^(?:(?:\S*\/)?(?:ip6?tables|xtables|ipset|conntrack|nft|ip|ipvsadm|unshare)[\w-]*(?: v[\d.]+)?(?: \([\w -]+\))?: |(?:\S+:\d+:\d+-\d+: |netlink: )?Error: |RTNETLINK answers: |Command failed |Can't initialize ipvs|Service (?:already|not)|No such |Destination already|Scheduler or|Invalid operation|Protocol not|Operation not supported|Module is wrong|Unknown |Perhaps |Bad rule|line \d+: )/m;

/** Exit codes of shells and loaders for a program that they could not start; unshare and env use them, too. */
const notStarted: ReadonlySet<number> = new Set([126, 127]);

/** Decides whether the rules or the surroundings of a tool are to blame for a failed run: only `refused` is about the rules. */
export function kindOf({ exitCode, stderr, lost }: Pick<ToolResult, 'exitCode' | 'stderr' | 'lost'>): FailureKind {
  if (exitCode === undefined) return lost ?? 'killed';
  // 128 and the number of a signal, from a shell.
  if (exitCode > 128) return 'killed';
  const kind = words.find(([, form]) => form.test(stderr))?.[0];
  if (notStarted.has(exitCode)) return kind ?? 'missing';
  return kind ?? (said.test(stderr) ? 'refused' : 'garbled');
}

/** The error of a failed run. @param action the command, such as `iptables-restore nat` */
export function failed(action: string, ran: ToolResult, why = ran.why): KernelError {
  return new KernelError(action, why, kindOf(ran));
}

/** The error of a tool that is not installed. */
export const notInstalled = (action: string, why = 'it is not installed'): KernelError =>
  new KernelError(action, why, 'missing');

/**
 * Checks what a tool printed: a tool that is being replaced, or another program in its place, prints something else and ends well.
 * @param isKnown whether the tool prints such a line
 * @throws KernelError at the first other line
 */
export function mustPrint(file: string, text: string, isKnown: (line: string) => boolean): void {
  const other = text.split('\n').find((line) => line !== '' && !isKnown(line));
  if (other !== undefined) throw garbled(file, other);
}

export const garbled = (file: string, line: string): KernelError =>
  new KernelError(
    file,
    `${basename(file)} printed ${quoted(line.slice(0, 80))}, which is none of its output`,
    'garbled',
  );
