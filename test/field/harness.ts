import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Diagnosis } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';

/**
 * Cases from public tickets: `case-NN/cmd.txt` is a script that builds a node in namespaces (`common/node.sh`) or compares a ticket's
 * files (`common/parity.sh`), and calls `sluice` and `sluiced`. It runs as it is written. Each call is recorded, so that tests ask
 * for codes and exit codes and not for texts.
 */

/** One call of a program. */
export interface Call {
  readonly program: 'sluice' | 'sluiced';
  readonly args: readonly string[];
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** What the same call prints with `-o json`, for verbs that change nothing; undefined: it printed no document. */
  readonly json: unknown;
}

/** One line of `common/q.py`: how often each answer came. */
export interface Asked {
  readonly protocol: 'tcp' | 'udp';
  readonly to: string;
  readonly answers: Readonly<Record<string, number>>;
}

export interface CaseRun {
  /** Of the script, both streams. */
  readonly output: string;
  readonly exitCode: number;
  readonly calls: readonly Call[];
  readonly asked: readonly Asked[];
  /** Of each `sluiced doctor` and `sluice doctor`, in order. */
  readonly diagnoses: readonly Diagnosis[];
}

/** Longer than any case waits: its clients give up after a second each. */
const caseTimeoutMs = 150_000;

/**
 * Stands for a program in PATH: records the call. Verbs that only read are called once more for their document; the doctor of a script
 * opens its connection twice then.
 */
const recorder = (program: string): string => `#!/bin/bash
at="$FIELD_CALLS/$(date +%s%N)"
basename "$0" > "$at.program"
printf '%s\\0' "$@" > "$at.args"
${process.execPath} ${program} "$@" > "$at.out" 2> "$at.err"
rc=$?
echo $rc > "$at.rc"
case " $1 $* " in
  *" -o "*) ;;
  " doctor "* | " parity "* | " trace "* | " policy "*) ${process.execPath} ${program} "$@" -o json > "$at.json" 2> /dev/null ;;
esac
cat "$at.out"
cat "$at.err" >&2
exit $rc
`;

/**
 * Runs a case in namespaces of its own; everything that it starts ends with it.
 * @param name `case-08` @param env `M`: the mode, for scripts that take one
 * @param script instead of `cmd.txt`, for a relative of the case
 */
export async function runCase(
  name: string,
  env: Readonly<Record<string, string>> = {},
  script = readFileSync(join(import.meta.dirname, name, 'cmd.txt'), 'utf8'),
): Promise<CaseRun> {
  const directory = mkdtempSync(join(tmpdir(), 'field-'));
  try {
    const calls = join(directory, 'calls');
    for (const folder of [calls, join(directory, 'bin')]) mkdirSync(folder);
    for (const program of ['sluice', 'sluiced'] as const)
      writeFileSync(join(directory, 'bin', program), recorder(programPath(program)), { mode: 0o755 });
    writeFileSync(join(directory, 'cmd.sh'), script);
    const namespaces = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const { all, exitCode, timedOut } = await execa('unshare', [...namespaces, 'bash', join(directory, 'cmd.sh')], {
      cwd: join(import.meta.dirname, name),
      env: {
        ...env,
        NO_COLOR: '1',
        FIELD_CALLS: calls,
        PATH: `${join(directory, 'bin')}:${process.env['PATH'] ?? ''}`,
      },
      all: true,
      reject: false,
      timeout: caseTimeoutMs,
    });
    if (timedOut) throw new Error(`${name} did not end in ${caseTimeoutMs} ms:\n${all}`);
    const recorded = callsIn(calls);
    const diagnoses = recorded.flatMap(({ args, json }) =>
      args[0] === 'doctor' && json !== undefined ? [json as Diagnosis] : [],
    );
    return { output: all, exitCode: exitCode ?? -1, calls: recorded, asked: askedIn(all), diagnoses };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function callsIn(folder: string): readonly Call[] {
  const read = (name: string): string => {
    try {
      return readFileSync(join(folder, name), 'utf8');
    } catch {
      return '';
    }
  };
  const names = readdirSync(folder).filter((name) => name.endsWith('.args'));
  return names.toSorted().map((file): Call => {
    const name = file.slice(0, -'.args'.length);
    const text = read(`${name}.json`);
    return {
      program: read(`${name}.program`).trim() === 'sluice' ? 'sluice' : 'sluiced',
      args: read(file).split('\0').slice(0, -1),
      exitCode: Number(read(`${name}.rc`) || -1),
      stdout: read(`${name}.out`),
      stderr: read(`${name}.err`),
      json: text === '' ? undefined : (JSON.parse(text) as unknown),
    };
  });
}

const askedIn = (output: string): readonly Asked[] =>
  [...output.matchAll(/^(tcp|udp) \S+ (\S+) (\d+) (\{.*\})$/gm)].map(
    ([, protocol = '', address, port, answers = '']) => ({
      protocol: protocol as Asked['protocol'],
      to: `${address}:${port}`,
      answers: JSON.parse(answers) as Asked['answers'],
    }),
  );

/** Whether every try was answered by a server: its name, and the address that it saw. */
export const isServed = ({ answers }: Asked): boolean =>
  Object.keys(answers).length > 0 && Object.keys(answers).every((answer) => answer.includes(' sees '));

/** Codes of what a doctor found besides notes, the cause first; `?` before one that is only likely. */
export const codesOf = ({ cause, others }: Diagnosis): readonly string[] =>
  [...(cause ? [cause] : []), ...others].map(({ code, certainty }) => `${certainty === 'certain' ? '' : '?'}${code}`);
