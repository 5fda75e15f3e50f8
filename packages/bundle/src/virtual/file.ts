import { bundleLimits } from '../names.ts';
import {
  ruleLimits,
  FileProblems,
  type Problem,
  readNftTable,
  type VirtualTool,
  refusedLine,
  serverNameOf,
} from '@sluice/netfilter';
import { readGuard } from '../read-guard.ts';
import type { Guard } from '../rulefile.ts';
import { unknownVariable } from '../variables.ts';

/** A line of an `.ipset`, `.ipvs` or `.nft` file, optionally with variables, optionally for some nodes only. */
export interface VirtualLine {
  readonly guard?: Guard;
  readonly text: string;
  /** Counts from 1. */
  readonly line: number;
}

/** An `.ipset`, `.ipvs` or `.nft` file as a value. README.md, "Mode ipvs" and "Mode nftables". */
export interface VirtualFile {
  readonly path: string;
  readonly tool: VirtualTool | 'nft';
  readonly lines: readonly VirtualLine[];
}

/** The first words of the lines of a file, by tool and kind of file. */
const verbs = {
  ipset: { base: ['create '], service: ['add '] },
  ipvs: { base: ['--set '], service: ['-A ', '-a '] },
} as const;

const nftVerb = 'add element inet sluice ';

/** The sets and maps of the lines of `.nft` files, by kind of file. */
const nftSets = {
  base: ofBoth('pods', 'keep', 'node', 'cidr'),
  service: ofBoth(
    'svc',
    'out',
    'always',
    'near',
    'none',
    'fw',
    'allow',
    'cluster',
    'loop',
    'health',
    'tcp',
    'udp',
    'sctp',
  ),
} as const;

function ofBoth(...names: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap((name) => [`${name}4`, `${name}6`]));
}

/** Variables of `.nft` files that the linker fills on the node. */
const linked = /\$\{(?:count|localCount|(?:slot|localSlot)(?::\d+)?)\}/g;

const printable = /^[\x20-\x7e]*$/;

/**
 * Reads the text of an `.ipset`, `.ipvs` or `.nft` file.
 * @param kind a file of a Service, or a base file of a profile
 * @returns the file, or every problem in it (`BUNDLE_INVALID`, `RULE_REFUSED`). `readSetLine`, `readServerLine` and
 *   `readNft` check the lines once their variables are filled in
 */
export function readVirtualFile(
  path: string,
  tool: VirtualTool | 'nft',
  kind: 'base' | 'service',
  text: string,
): VirtualFile | readonly Problem[] {
  if (tool === 'nft' && kind === 'base' && text.startsWith('table ')) return readTable(path, text);
  const reading: VirtualFileReading = { tool, kind, lines: [], declared: new Set() };
  const problems = new FileProblems();
  const lines = text.split('\n');
  const last = lines.pop();
  if (last !== '') lines.push(last ?? '');
  for (const [index, line] of lines.entries()) {
    const wrong = readLine(reading, line, index + 1);
    if (wrong !== undefined) problems.add(refusedLine(path, index + 1, wrong));
  }
  if (last !== '') problems.add(refusedLine(path, lines.length, 'the last line has no line feed'));
  return !problems.isEmpty ? problems.all : { path, tool, lines: reading.lines };
}

/** `base/first.nft` counts as one line, so that its variables are filled like those of others. */
function readTable(path: string, text: string): VirtualFile | readonly Problem[] {
  const table = readNftTable(text);
  if (table === undefined)
    return [refusedLine(path, 1, 'this version knows no such table; upgrade sluiced first, or render again')];
  const stray = unknownVariable(table);
  if (stray !== undefined) return [refusedLine(path, 1, `${stray} is not a variable`)];
  return { path, tool: 'nft', lines: [{ text: table, line: 1 }] };
}

interface VirtualFileReading {
  readonly tool: VirtualTool | 'nft';
  readonly kind: 'base' | 'service';
  readonly lines: VirtualLine[];
  /** The virtual servers so far, as `-t ADDRESS:PORT`. */
  readonly declared: Set<string>;
}

/** Reads one line into `reading`. @returns the error in words */
function readLine(reading: VirtualFileReading, line: string, number: number): string | undefined {
  if (line.length > bundleLimits.lineBytesMax) return `the line has more than ${bundleLimits.lineBytesMax} bytes`;
  if (!printable.test(line)) return 'the line has a character that is not printable ASCII';
  if (line.startsWith('#')) return reading.lines.length > 0 ? 'a comment is after the header' : undefined;
  const end = line.startsWith('@') ? line.indexOf(' ') : -1;
  const text = line.slice(end + 1);
  if (text.length > ruleLimits.ruleBytesMax) return `the line has more than ${ruleLimits.ruleBytesMax} bytes`;
  const stray = unknownVariable(reading.tool === 'nft' ? text.replaceAll(linked, '') : text);
  if (stray !== undefined) return `${stray} is not a variable`;
  const strange = checkVerb(reading, text);
  if (strange !== undefined) return strange;
  const guard = end < 0 ? undefined : readGuard(line.slice(0, end));
  const wrong = typeof guard === 'string' ? guard : checkPosition(reading, text, guard);
  if (wrong !== undefined) return wrong;
  reading.lines.push({ ...(guard ? { guard: guard as Guard } : {}), text, line: number });
  return undefined;
}

/** Whether files of this tool and kind have lines with such a beginning. @returns the error in words */
function checkVerb({ tool, kind }: VirtualFileReading, text: string): string | undefined {
  if (tool === 'nft') {
    const end = text.indexOf(' ', nftVerb.length);
    const isKnown = end > 0 && text.startsWith(nftVerb) && nftSets[kind].has(text.slice(nftVerb.length, end));
    return isKnown ? undefined : `a ${kind} file has no such line`;
  }
  const allowed: readonly string[] = verbs[tool][kind];
  return allowed.some((verb) => text.startsWith(verb))
    ? undefined
    : `lines of a ${kind} file start with ${allowed.map((verb) => verb.trim()).join(' or ')}`;
}

/** Checks a line against the lines before it: the virtual servers of guards and of real servers must be declared. */
function checkPosition(reading: VirtualFileReading, text: string, guard: Guard | undefined): string | undefined {
  const isReal = text.startsWith('-a ');
  if (reading.kind === 'base' && guard && reading.tool !== 'nft') return 'lines of a base file have no guard';
  if (guard?.kind === 'local') {
    if (!isReal) return 'only real servers have a guard @local or @nolocal';
    const server = serverNameOf(guard.chain);
    if (server === undefined || !reading.declared.has(server))
      return `a guard names virtual server ${guard.chain}, which no earlier line declares`;
  }
  if (reading.tool !== 'ipvs') return undefined;
  if (reading.kind === 'base') return reading.lines.length > 0 ? 'time-outs are set in more than one line' : undefined;
  const name = serverName(text);
  if (isReal) return reading.declared.has(name) ? undefined : `no earlier line declares virtual server ${name}`;
  if (reading.declared.has(name)) return `virtual server ${name} is declared twice`;
  reading.declared.add(name);
  return undefined;
}

/** The virtual server of a line `-A …` or `-a …`, as `-t ADDRESS:PORT`. */
export function serverName(text: string): string {
  return text.split(' ', 3).slice(1).join(' ');
}
