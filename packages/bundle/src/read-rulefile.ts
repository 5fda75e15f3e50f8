import { bundleLimits } from './names.ts';
import { FileProblems, type Problem, refusal, ruleLimits, type TableName } from '@sluice/netfilter';
import { readGuard } from './read-guard.ts';
import type { GuardedRule, RuleFile } from './rulefile.ts';
import { unknownVariable } from './variables.ts';

const declaration = /^:([A-Z0-9][A-Za-z0-9-]{0,27}) - \[0:0\]$/;
const plainLine = /^[\x20-\x7e]*$/;

interface OpenSection {
  readonly table: TableName;
  readonly chains: Set<string>;
  readonly rules: GuardedRule[];
}

/** The state of reading a rule file. */
interface RuleFileReading {
  readonly header: string[];
  readonly sections: OpenSection[];
  open: OpenSection | undefined;
  /** The chains that guards name, with the index of the first such line. */
  readonly guardChains: Map<string, number>;
}

/**
 * Reads the text of a rule file.
 * @param path named in problems; lines count from 1
 * @returns the file, or every problem in it (`BUNDLE_INVALID`). The rules' own grammar is checked by `readRule`, not here.
 */
export function readRuleFile(path: string, text: string): RuleFile | readonly Problem[] {
  const problems = new FileProblems();
  const reading: RuleFileReading = { header: [], sections: [], open: undefined, guardChains: new Map() };
  const lines = text.split('\n');
  const complain = (index: number, message: string): void => problems.add(problem(path, index, message));
  const last = lines.pop();
  if (last !== '') complain(lines.push(last ?? '') - 1, 'the last line has no line feed');
  for (const [index, line] of lines.entries()) {
    const wrong = readLine(reading, line, index);
    if (wrong !== undefined) complain(index, wrong);
  }
  if (reading.open) complain(lines.length - 1, `section *${reading.open.table} has no COMMIT`);
  const declared = reading.sections.find((section) => section.table === 'nat')?.chains;
  for (const [chain, index] of reading.guardChains) {
    if (!declared?.has(chain)) complain(index, `a guard names chain ${chain}, which the nat section does not declare`);
  }
  if (!problems.isEmpty) return problems.all;
  const sections = reading.sections.map(({ table, chains, rules }) => ({ table, chains: [...chains], rules }));
  return { header: reading.header, sections };
}

/** Reads one line into `reading`. @returns the error in words */
function readLine(reading: RuleFileReading, line: string, index: number): string | undefined {
  if (line.length > bundleLimits.lineBytesMax) return `a line has more than ${bundleLimits.lineBytesMax} bytes`;
  if (!plainLine.test(line)) return 'a line has a character that is not printable ASCII';
  const { open, sections } = reading;
  if (line.startsWith('#')) {
    if (sections.length === 0) reading.header.push(line.slice(line.startsWith('# ') ? 2 : 1));
    return undefined;
  }
  if (line === '*filter' || line === '*nat') return openSection(reading, line === '*nat' ? 'nat' : 'filter');
  if (!open) return 'a line is outside of a section';
  if (line === 'COMMIT') {
    reading.open = undefined;
    return undefined;
  }
  return line.startsWith(':') ? readDeclaration(open, line) : readGuardedRule(reading, open, line, index);
}

function openSection(reading: RuleFileReading, table: TableName): string | undefined {
  const { open, sections } = reading;
  const misplaced = open || sections.some((section) => section.table === table || section.table === 'nat');
  sections.push((reading.open = { table, chains: new Set(), rules: [] }));
  return misplaced ? `section *${table} is out of place` : undefined;
}

function readDeclaration(open: OpenSection, line: string): string | undefined {
  const name = declaration.exec(line)?.[1];
  if (name === undefined) return 'a chain declaration is not of the form `:NAME - [0:0]`';
  if (open.rules.length > 0) return 'a chain is declared after a rule';
  if (open.chains.has(name)) return `chain ${name} is declared twice`;
  open.chains.add(name);
  return undefined;
}

function readGuardedRule(reading: RuleFileReading, open: OpenSection, line: string, index: number): string | undefined {
  const end = line.startsWith('@') ? line.indexOf(' ') : -1;
  const text = line.slice(end + 1);
  if (!text.startsWith('-A ')) return 'a line is neither a rule, a guarded rule nor COMMIT';
  if (text.length > ruleLimits.ruleBytesMax) return `a rule has more than ${ruleLimits.ruleBytesMax} bytes`;
  const stray = unknownVariable(text);
  if (stray !== undefined) return `${stray} is not a variable`;
  if (end < 0) {
    open.rules.push({ text });
    return undefined;
  }
  const guard = readGuard(line.slice(0, end));
  if (typeof guard === 'string') return guard;
  if (guard.kind === 'local' && !reading.guardChains.has(guard.chain)) reading.guardChains.set(guard.chain, index);
  open.rules.push({ guard, text });
  return undefined;
}

const problem = (path: string, index: number, message: string): Problem =>
  refusal(
    'BUNDLE_INVALID',
    `Cannot read rule file: ${message}`,
    'Rule files are written by `sluice render`; render again rather than edit them',
    { at: { file: path, line: index + 1, column: 1 } },
  );
