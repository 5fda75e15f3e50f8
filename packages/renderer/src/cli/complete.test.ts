import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { complete } from './complete.ts';
import { completionScripts } from './completion.ts';
import { buildProgram } from './program.ts';

const names = {
  nodes: (dir: string) => (dir === 'rendered' ? ['node-a', 'node-b'] : [`only-${dir}`]),
  services: () => ['shop/cart', 'shop/web'],
};

describe('what a word may become', () => {
  test.each([
    { words: ['sh'], values: ['show'], files: false, why: 'a verb' },
    { words: ['allocations', ''], values: ['fix', 'manifests', 'help'], files: false, why: 'a verb below a verb' },
    { words: ['show', '--to'], values: ['--tool'], files: false, why: 'an option of the command' },
    { words: ['show', '--node', ''], values: ['node-a', 'node-b'], files: false, why: 'a node of the default bundle' },
    {
      words: ['show', 'out', '--node', 'o'],
      values: ['only-out'],
      files: false,
      why: 'a node of the bundle named before',
    },
    { words: ['show', '--service', 'shop/w'], values: ['shop/web'], files: false, why: 'a Service' },
    { words: ['ls', '-o', 'j'], values: ['json'], files: false, why: 'a choice of an option' },
    { words: ['ls', '-o', 'json', ''], values: [], files: true, why: 'a directory, after an option with its value' },
    { words: ['render', '-f', 'man'], values: [], files: true, why: 'a file, as the value of an option' },
    { words: ['completion', 'b'], values: ['bash'], files: false, why: 'a choice of an argument' },
    { words: ['ls', 'rendered', ''], values: [], files: false, why: 'nothing after the last argument' },
    { words: ['com'], values: ['completion'], files: false, why: 'no command that the help hides' },
  ])('$words is completed to $why', ({ words, values, files }) => {
    const found = complete(buildProgram(), words, names);
    expect(found.words.map(({ value }) => value)).toEqual(values);
    expect(found.files).toBe(files);
  });
});

/** A `sluice` on the PATH that answers as the real one does, and says with which words it was asked. */
function fakeSluice(answer: string): { readonly dir: string } {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-completion-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, 'answer'), answer);
  writeFileSync(join(dir, 'sluice'), `#!/bin/sh\nprintf '%s,' "$@" > ${dir}/asked\ncat ${dir}/answer\n`, {
    mode: 0o755,
  });
  return { dir };
}

const asked = (dir: string): string => execFileSync('/bin/cat', [join(dir, 'asked')], { encoding: 'utf8' });

test('bash asks with the words up to the cursor and takes the values', () => {
  const { dir } = fakeSluice('node-a\tfirst\nnode-b\tsecond\n');
  const script = `${completionScripts.bash}
COMP_WORDS=(sluice show --node n rest) COMP_CWORD=3
compopt() { echo "compopt $*"; }
_sluice
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const out = execFileSync('/bin/bash', ['-c', script], { encoding: 'utf8', env: { PATH: `${dir}:/usr/bin:/bin` } });
  expect(out).toBe('node-a\nnode-b\n');
  expect(asked(dir)).toBe('complete,--,show,--node,n,');
});

test.skipIf(!existsSync('/usr/bin/fish'))('fish takes values with their descriptions (needs fish)', () => {
  const { dir } = fakeSluice('render\twrite\nshow\tprint\n');
  const script = `${completionScripts.fish}\ncomplete -C 'sluice '`;
  symlinkSync('/bin/cat', join(dir, 'cat'));
  const out = execFileSync('/usr/bin/fish', ['--no-config', '-c', script], {
    encoding: 'utf8',
    env: { PATH: `${dir}:/usr/bin:/bin`, HOME: dir },
  });
  expect(out).toBe('render\twrite\nshow\tprint\n');
  expect(asked(dir)).toBe('complete,--,,');
});

test.skipIf(!existsSync('/bin/zsh'))('zsh takes values with their descriptions (needs zsh)', () => {
  const { dir } = fakeSluice('render\twrite\nshow\tprint\n');
  const script = `compdef() { :; }
compadd() { print -r -- "$*"; print -rl -- $found $shown; }
${completionScripts.zsh}
words=(sluice sh) CURRENT=2
_sluice`;
  const out = execFileSync('/bin/zsh', ['-f', '-c', script], {
    encoding: 'utf8',
    env: { PATH: `${dir}:/usr/bin:/bin`, HOME: dir },
  });
  expect(out).toBe('-l -d shown -a found\nrender\nshow\nrender  -- write\nshow  -- print\n');
  expect(asked(dir)).toBe('complete,--,sh,');
});
