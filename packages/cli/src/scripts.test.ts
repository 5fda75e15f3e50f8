import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { completionScript } from './scripts.ts';

/** A folder for PATH with a program that answers as the real one does, and writes down with which words it was asked. */
function fake(name: string, answer: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-completion-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, 'answer'), answer);
  const script = `#!/bin/sh\nprintf '%s,' "$@" > ${dir}/asked\ncat ${dir}/answer\n`;
  writeFileSync(join(dir, name), script, { mode: 0o755 });
  return dir;
}

const asked = (dir: string): string => readFileSync(join(dir, 'asked'), 'utf8');
const run = (shell: string, args: readonly string[], dir: string): string =>
  execFileSync(shell, args, { encoding: 'utf8', env: { PATH: `${dir}:/usr/bin:/bin`, HOME: dir } });

describe.each(['sluice', 'sluiced'])('of %s', (name) => {
  test('bash passes the words up to the cursor and uses the values', () => {
    const dir = fake(name, 'node-a\tfirst\nnode-b\tsecond\n');
    const script = `${completionScript(name, 'bash')}
COMP_WORDS=(${name} show --node n rest) COMP_CWORD=3
compopt() { echo "compopt $*"; }
_${name}
printf '%s\\n' "\${COMPREPLY[@]}"
complete -p ${name}`;
    expect(run('/bin/bash', ['-c', script], dir)).toBe(`node-a\nnode-b\ncomplete -F _${name} ${name}\n`);
    expect(asked(dir)).toBe('complete,--,show,--node,n,');
  });

  test('bash completes file names', () => {
    const dir = fake(name, ':files\n');
    const script = `${completionScript(name, 'bash')}
COMP_WORDS=(${name} show '') COMP_CWORD=2
compopt() { echo "compopt $*"; }
_${name}
echo "\${#COMPREPLY[@]}"`;
    expect(run('/bin/bash', ['-c', script], dir)).toBe('compopt -o default\n0\n');
  });

  test.skipIf(!existsSync('/usr/bin/fish'))('fish shows values with their descriptions (needs fish)', () => {
    const dir = fake(name, 'render\twrite\nshow\tprint\n');
    symlinkSync('/bin/cat', join(dir, 'cat'));
    const script = `${completionScript(name, 'fish')}\ncomplete -C '${name} '`;
    expect(run('/usr/bin/fish', ['--no-config', '-c', script], dir)).toBe('render\twrite\nshow\tprint\n');
    expect(asked(dir)).toBe('complete,--,,');
  });

  test.skipIf(!existsSync('/bin/zsh'))('zsh shows values with their descriptions (needs zsh)', () => {
    const dir = fake(name, 'render\twrite\nshow\tprint\n');
    const script = `compdef() { :; }
compadd() { print -r -- "$*"; print -rl -- $found $shown; }
${completionScript(name, 'zsh')}
words=(${name} sh) CURRENT=2
_${name}`;
    expect(run('/bin/zsh', ['-f', '-c', script], dir)).toBe(
      '-l -d shown -a found\nrender\nshow\nrender  -- write\nshow  -- print\n',
    );
    expect(asked(dir)).toBe('complete,--,sh,');
  });
});
