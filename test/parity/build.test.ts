// @module-tag quick
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { build, type GoProgram, pathOf, reasonOf } from './build.ts';

let dir: string;
let program: GoProgram;
let cache: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-build-'));
  cache = join(dir, 'cache');
  const module = join(dir, 'module');
  mkdirSync(module);
  for (const file of ['go.mod', 'go.sum']) writeFileSync(join(module, file), file);
  program = { name: 'tool', module, package: 'example.org/tool', version: 'v1.2.3' };
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A Go that records each build, and then runs the shell script; `$out` is the file to write. */
function goThat(script: string): string {
  const path = join(dir, 'go');
  const head = `#!/bin/sh\necho build >>"${dir}/builds"\nwhile [ "$1" != -o ]; do shift; done\nout=$2\n`;
  writeFileSync(path, `${head}${script}\n`, { mode: 0o755 });
  return path;
}
const builds = (): number => readFileSync(join(dir, 'builds'), 'utf8').trim().split('\n').length;

test('two callers that need the same program at once build it once', async () => {
  const go = goThat('sleep 0.3; echo whole >"$out"');
  const built = await Promise.all([build(program, { cache, go }), build(program, { cache, go })]);
  const path = pathOf(program, cache);
  expect(built).toEqual([{ path }, { path }]);
  expect(builds()).toBe(1);
  expect(readFileSync(path, 'utf8')).toBe('whole\n');
});

test('another go.sum is another program', async () => {
  const go = goThat('echo whole >"$out"');
  const first = await build(program, { cache, go });
  writeFileSync(join(program.module, 'go.sum'), 'other');
  expect(await build(program, { cache, go })).not.toEqual(first);
  expect(builds()).toBe(2);
});

test('another source of a stand-in for a module is another program', () => {
  const standIn = join(dir, 'stand-in');
  mkdirSync(join(standIn, 'pkg'), { recursive: true });
  writeFileSync(join(program.module, 'go.mod'), 'replace (\n\texample.org/a v1.0.0 => ../stand-in\n)\n');
  writeFileSync(join(standIn, 'pkg/a.go'), 'package a');
  const first = pathOf(program, cache);
  writeFileSync(join(standIn, 'pkg/a.go'), 'package b');
  expect(pathOf(program, cache)).not.toBe(first);
});

test('Go takes a newer Go from the module proxy where a module asks for one', async () => {
  const go = goThat('echo "$GOTOOLCHAIN" >"$out"');
  expect(await build(program, { cache, go })).toHaveProperty('path');
  expect(readFileSync(pathOf(program, cache), 'utf8')).toBe('auto\n');
});

test('a killed build leaves neither a program nor a lock', async () => {
  const killed = build(program, { cache, go: goThat('echo half >"$out"; echo $$ >"$out.pid"; exec sleep 60') });
  const pidFile = `${pathOf(program, cache)}.part.pid`;
  const pid = await vi.waitFor(() => {
    const read = existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0;
    expect(read).toBeGreaterThan(0);
    return read;
  });
  process.kill(pid, 'SIGKILL');
  expect(await killed).toHaveProperty('lack');
  const path = pathOf(program, cache);
  expect(existsSync(path)).toBe(false);
  expect(await build(program, { cache, go: goThat('echo whole >"$out"') })).toEqual({ path });
  expect(readFileSync(path, 'utf8')).toBe('whole\n');
});

test('reports in one line why a program cannot be built', async () => {
  expect(await build(program, { cache, go: join(dir, 'nothing') })).toEqual({
    lack: 'tool v1.2.3 is not built, and Go is not installed',
  });
  const go = goThat('echo "# example.org/tool" >&2; echo "write x: no space left on device" >&2; exit 1');
  expect(await build(program, { cache, go })).toEqual({
    lack: 'tool v1.2.3 cannot be built: write x: no space left on device',
  });
});

test.each([
  [
    'go: downloading k8s.io/api v0.1.0\nk8s.io/api: dial tcp: lookup proxy: no such host\n\tserver response:',
    'k8s.io/api: dial tcp: lookup proxy: no such host',
  ],
  ['# k8s.io/x\nx.go:4:2: undefined: y', 'x.go:4:2: undefined: y'],
  ['flock: failed', 'flock: failed'],
  ['', 'Go gave no reason'],
])('extracts the cause from the output of Go: %j', (said, reason) => {
  expect(reasonOf(said)).toBe(reason);
});
