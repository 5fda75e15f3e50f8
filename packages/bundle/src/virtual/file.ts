import { bundleLimits } from '../limits.ts';
import { ruleLimits, FileProblems, type Problem, type VirtualTool, refusedLine, serverNameOf } from '@sluice/netfilter';
import { readGuard } from '../read-guard.ts';
import type { Guard } from '../rulefile.ts';
import { unknownVariable } from '../variables.ts';

/** A line of an `.ipset` or `.ipvs` file, optionally with variables, optionally for some nodes only. */
export interface VirtualLine {
  readonly guard?: Guard;
  readonly text: string;
  /** Counts from 1. */
  readonly line: number;
}

/** An `.ipset` or `.ipvs` file as a value. README.md, "Mode ipvs". */
export interface VirtualFile {
  readonly path: string;
  readonly tool: VirtualTool;
  readonly lines: readonly VirtualLine[];
}

/** The first words of the lines of a file, by tool and kind of file. */
const verbs = {
  ipset: { base: ['create '], service: ['add '] },
  ipvs: { base: ['--set '], service: ['-A ', '-a '] },
} as const;

const printable = /^[\x20-\x7e]*$/;

/**
 * Reads the text of an `.ipset` or `.ipvs` file.
 * @param kind a file of a Service, or `base/first` of a profile
 * @returns the file, or every problem in it (`BUNDLE_INVALID`, `RULE_REFUSED`). `readSetLine` and `readServerLine` check the lines
 *   once their variables are filled in
 */
export function readVirtualFile(
  path: string,
  tool: VirtualTool,
  kind: 'base' | 'service',
  text: string,
): VirtualFile | readonly Problem[] {
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

interface VirtualFileReading {
  readonly tool: VirtualTool;
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
  const stray = unknownVariable(text);
  if (stray !== undefined) return `${stray} is not a variable`;
  const allowed: readonly string[] = verbs[reading.tool][reading.kind];
  if (!allowed.some((verb) => text.startsWith(verb)))
    return `lines of a ${reading.kind} file start with ${allowed.map((verb) => verb.trim()).join(' or ')}`;
  const guard = end < 0 ? undefined : readGuard(line.slice(0, end));
  const wrong = typeof guard === 'string' ? guard : checkPosition(reading, text, guard);
  if (wrong !== undefined) return wrong;
  reading.lines.push({ ...(guard ? { guard: guard as Guard } : {}), text, line: number });
  return undefined;
}

/** Checks a line against the lines before it: the virtual servers of guards and of real servers must be declared. */
function checkPosition(reading: VirtualFileReading, text: string, guard: Guard | undefined): string | undefined {
  const isReal = text.startsWith('-a ');
  if (reading.kind === 'base' && guard) return 'lines of a base file have no guard';
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
