// @module-tag test
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import type { Command } from 'commander';
import { execa } from 'execa';
import { afterAll, describe, expect, test } from 'vitest';
import { isFormatOption } from '../packages/cli/src/format.ts';
import { commands, wordsOf } from './commands.fixture.ts';

const dir = mkdtempSync(join(tmpdir(), 'sluice-formats-'));
afterAll(() => rmSync(dir, { recursive: true }));

/** The shortest valid command line of this command, so that only the format can be wrong with it. */
function line(command: Command, format: string): readonly string[] {
  const option = command.options.find(isFormatOption)?.long ?? '';
  const required = command.options
    .filter(({ mandatory }) => mandatory)
    .flatMap(({ long, required: takesValue }) =>
      takesValue ? [long ?? '', values[long ?? ''] ?? 'none'] : [long ?? ''],
    );
  const operands = command.registeredArguments
    .filter((one) => one.required)
    .map((one) => one.argChoices?.[0] ?? values[one.name()] ?? 'none');
  const hasConfig = command.options.some(({ long }) => long === '--config');
  const isNodes = command.name() === 'init' && command.parent?.name() === 'sluiced';
  const more = [
    ...(command.name() === 'release' ? ['--serial', '1'] : []),
    // It would write the config of this machine.
    ...(isNodes ? ['--node', 'No_Node'] : []),
    ...(hasConfig ? nowhere : []),
  ];
  return [...wordsOf(command), ...required, ...more, option, format, '--', ...operands];
}
/** No command reads a config of this machine, or works on its rules. */
const nowhere = ['--config', 'nowhere.yaml'];
const values: Readonly<Record<string, string>> = { SECONDS: '5', '--source': 'a'.repeat(40) };

/** The kinds of documents of commands that need no input. */
const works: Readonly<Record<string, string>> = {
  'sluice init': 'InitResult',
  ...Object.fromEntries(
    ['sluice', 'sluiced'].flatMap((name) => [
      [`${name} version`, 'Version'],
      [`${name} completion`, 'CompletionScript'],
      [`${name} complete`, 'Candidates'],
    ]),
  ),
};
const text = expect.stringMatching(/./) as string;
const failed = {
  apiVersion: 'sluice.dev/v1alpha1',
  kind: 'Error',
  error: { code: expect.stringMatching(/^(?!INTERNAL)[A-Z_]+$/) as string, message: text, hint: text },
  problems: expect.arrayContaining([expect.objectContaining({ level: 'error' })]) as object[],
};

describe.concurrent('command lines', () => {
  test.each(commands)(
    '$title refuses an unknown format with a usage error',
    { timeout: 60_000 },
    async ({ name, command }) => {
      const ran = await start(name, line(command, 'nonsense'));
      expect(ran).toMatchObject({ exitCode: 2, stdout: '' });
      expect(ran.stderr).toMatch(/^error: option '.*<FORMAT>' argument 'nonsense' is invalid\./);
    },
  );

  // In an empty directory, without a config, a cluster or input, most commands fail; `run` and `watch` fail before they start.
  test.each(commands)(
    '$title prints one document with -o json',
    { timeout: 60_000 },
    async ({ name, command, title }) => {
      const { stdout } = await start(name, line(command, 'json'));
      const kind = works[title];
      expect(JSON.parse(stdout)).toMatchObject(kind === undefined ? failed : { kind });
    },
  );
});

test('an invalid command line prints a document, too', async () => {
  for (const words of [
    ['status', '-o', 'json', '--nonsense'],
    ['status', '--nonsense', '--output=json'],
    ['status', 'x', '-ojson'],
  ]) {
    const { stdout, stderr, exitCode } = await start('sluiced', words);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^error: /);
    expect(JSON.parse(stdout)).toMatchObject({
      error: { code: 'USAGE_INVALID', hint: 'sluiced status --help lists commands and options' },
    });
  }
});

test.each(['sluice', 'sluiced'] as const)(
  '%s prints its version as a command and as an option, as text and as a document',
  async (name) => {
    const [command, option, json, optionJson] = await Promise.all(
      [['version'], ['--version'], ['version', '-o', 'json'], ['--version', '-o', 'json']].map((words) =>
        start(name, words),
      ),
    );
    const result = JSON.parse(json!.stdout) as { readonly version: string };
    expect(result).toMatchObject({ kind: 'Version', bundleFormats: [1], node: process.versions.node });
    expect(option?.stdout).toBe(result.version);
    expect(optionJson?.stdout).toBe(json?.stdout);
    expect(command?.stdout).toContain(`${name} ${result.version} (`);
  },
);

/** Runs a program in an empty directory, without a cluster, a config or input. */
async function start(name: 'sluice' | 'sluiced', words: readonly string[]) {
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: dir,
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
  };
  const ran = await execa(process.execPath, [programPath(name), ...words], {
    cwd: dir,
    env,
    extendEnv: false,
    input: '',
    reject: false,
    timeout: 30_000,
  });
  return { stdout: ran.stdout, stderr: ran.stderr, exitCode: ran.exitCode };
}

test('only init, which needs no input, writes files', () => {
  expect(readdirSync(dir).toSorted()).toEqual(['sluice.yaml', 'sluiceconfig.schema.json']);
});
