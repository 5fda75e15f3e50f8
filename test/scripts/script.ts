import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';

/** One command with its complete output. README.md of this folder describes the format. */
export interface ScriptStep {
  readonly line: number;
  readonly command: string;
  readonly stdout: string[];
  readonly stderr: string[];
  exit: number;
}

export interface Script {
  readonly title: string;
  readonly steps: readonly ScriptStep[];
  /** Path → text. */
  readonly files: ReadonlyMap<string, string>;
}

/** Reads a script. Throws at a line that is not of the format. */
export function readScript(text: string): Script {
  const [head = '', ...rest] = text.split(/^-- (.+) --\n/m);
  const files = new Map<string, string>();
  for (let index = 0; index < rest.length; index += 2) files.set(rest[index] as string, rest[index + 1] as string);
  const lines = head.split('\n');
  const steps: ScriptStep[] = [];
  for (const [index, line] of lines.entries()) readLine(line, index + 1, steps);
  return { title: (lines[0] ?? '').replace(/^# /, ''), steps, files };
}

function readLine(line: string, number: number, steps: ScriptStep[]): void {
  if (line === '' || line.startsWith('#')) return;
  const [, sign, text = ''] = /^(\$|1>|2>|exit)(?: (.*))?$/.exec(line) ?? [];
  const step = steps.at(-1);
  if (sign === '$') steps.push({ line: number, command: text, stdout: [], stderr: [], exit: 0 });
  else if (sign === undefined || step === undefined) throw new Error(`line ${number} is not part of a script: ${line}`);
  else if (sign === 'exit') step.exit = Number(text);
  else (sign === '1>' ? step.stdout : step.stderr).push(text);
}

/** Writes the files of a script into `dir`. */
export function layOut(script: Script, dir: string): void {
  for (const [path, text] of script.files) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
}

/**
 * The script's text with the real output of each command in the place of the listed one.
 * @param ran the results of steps; matching ones are left out
 */
export function rewrite(text: string, ran: ReadonlyMap<ScriptStep, StepResult>): string {
  const lines = text.split('\n');
  for (const [step, { stdout, stderr, exit }] of [...ran].toReversed()) {
    const listed = lines.slice(step.line).findIndex((line) => !/^(1>|2>|exit)/.test(line));
    const printed = [...signed('1>', stdout), ...signed('2>', stderr), ...(exit === 0 ? [] : [`exit ${exit}`])];
    lines.splice(step.line, listed, ...printed);
  }
  return lines.join('\n');
}

function signed(sign: string, output: string): string[] {
  return output
    .split('\n')
    .slice(0, -1)
    .map((line) => `${sign} ${line}`.trimEnd());
}

/** The result of a command. */
export interface StepResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: number;
  /** The directory's paths and contents before and after. */
  readonly before: ReadonlyMap<string, string>;
  readonly after: ReadonlyMap<string, string>;
}

const bin = dirname(programPath('sluice'));

/** Runs one command. Git has only its default configuration, so that scripts run the same everywhere. */
export async function runStep(step: ScriptStep, dir: string): Promise<StepResult> {
  const before = contents(dir);
  const { stdout, stderr, exitCode } = await execa('bash', ['-c', step.command], {
    cwd: dir,
    env: { ...gitEnvironment, PATH: `${bin}:${process.env['PATH'] ?? ''}` },
    stdin: 'ignore',
    reject: false,
    stripFinalNewline: false,
    timeout: 60_000,
  });
  return { stdout, stderr, exit: exitCode ?? -1, before, after: contents(dir) };
}

const person = { NAME: 'An Author', EMAIL: 'person@example.org', DATE: '2026-01-01T00:00:00Z' };
const gitEnvironment = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
  ...Object.fromEntries(
    Object.entries(person).flatMap(([key, value]) => [
      [`GIT_AUTHOR_${key}`, value],
      [`GIT_COMMITTER_${key}`, value],
    ]),
  ),
};

function contents(dir: string): ReadonlyMap<string, string> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true })
    .map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }))
    .filter(({ path }) => !path.includes('/.git/'));
  return new Map(entries.map(({ entry, path }) => [path, entry.isFile() ? readFileSync(path, 'utf8') : 'no file']));
}

/** The lines as a pattern: `…` for any text, alone for any lines. */
export function matches(text: string, lines: readonly string[]): boolean {
  const pattern = lines.map((line) => (line === '…' ? '(?:.*\\n)*' : `${line.split('…').map(escape).join('.*')}\\n`));
  return new RegExp(`^${pattern.join('')}$`).test(text);
}

const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
