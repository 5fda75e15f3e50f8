// @module-tag test
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { sumsFile, sumsOf } from '@sluice/bundle';
import { atTier, programPath, randomOf, seed } from '@sluice/testing';
import { beforeEach, expect, test } from 'vitest';
import { directoryReader, layoutContent } from '../../packages/transport/src/content/layout.ts';
import { pullRelease } from '../../packages/transport/src/content/pull.ts';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { sourceScene } from './scene.fixture.ts';

/** The real program, killed before any of its writes, or on a full disk: what is placed is one release or the other, or finished by the next process. */

const { scene, fetched, config, writeConfig } = sourceScene();
const { publish, directory: release, scratch } = scene;
const writeSource = (directory: string): void =>
  writeConfig(`source: { dir: { path: ${release} }, directory: ${directory} }`);

const services = [
  { 'shop/web': [1], 'shop/old': [2], 'shop/api': [3] },
  { 'shop/web': [7], 'shop/new': [2], 'shop/api': [4] },
  { 'shop/web': [7], 'shop/new': [2], 'shop/api': [5] },
] as const;
const five = sampleBundle({ services: services[0] });
const six = sampleBundle({ services: services[1] });

beforeEach(() => writeSource(fetched));

interface Ran {
  readonly signal: string | null;
  readonly status: number | null;
  readonly said: string;
}

/** Runs `sluiced fetch --once`. */
const fetchOnce = (killedAt = 0): Ran =>
  run(killedAt, fetched, programPath('sluiced'), 'fetch', '--once', '-c', config);

/** @param killedAt before which write below the folder it is killed; 0: none */
function run(killedAt: number, folder: string, ...program: readonly string[]): Ran {
  const env = { KILLED_AT: String(killedAt), KILLED_BELOW: folder };
  const args = ['--import', join(import.meta.dirname, 'killed-at.ts'), ...program];
  const { signal, status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  return { signal, status, said: `${stdout}${stderr}` };
}

/** Numbers of writes before which it is killed, of those of a whole run. */
function chosenOf({ said }: Ran): readonly number[] {
  const calls = Number(/calls: (\d+)/.exec(said)?.[1]);
  expect(calls).toBeGreaterThan(20);
  const stride = atTier({ quick: 8, all: 1 });
  const first = Math.floor(randomOf(seed)() * stride);
  return Array.from({ length: calls }, (_, n) => n + 1).filter((n) => n % stride === first);
}

const taken = (): Promise<string> => new Fetcher(scene, { dir: { path: release } }).taken();

test('a process that is killed at any write leaves a release that is whole, or that the next one finishes without the source', async () => {
  publish({ serial: 5, files: five });
  expect(fetchOnce().said).toContain('placed');
  cpSync(fetched, join(scratch, 'before'), { recursive: true });
  publish({ serial: 6, files: six });
  const whole = fetchOnce();
  expect(await taken()).toBe('serial 6');
  const chosen = chosenOf(whole);
  const outcomes = new Set<string>();
  const wrong: string[] = [];
  for (const at of chosen) {
    rmSync(fetched, { recursive: true });
    cpSync(join(scratch, 'before'), fetched, { recursive: true });
    const { signal } = fetchOnce(at);
    const left = await taken();
    outcomes.add(left.replace(/ .*/s, ''));
    // The source is gone: what was decided is finished from the disk, and nothing else changes.
    renameSync(release, `${release}.gone`);
    const { said } = fetchOnce();
    const finished = await taken();
    renameSync(`${release}.gone`, release);
    const { status } = fetchOnce();
    const last = await taken();
    const isRight =
      signal === 'SIGKILL' &&
      said.includes('SOURCE_UNREACHABLE') &&
      /^serial [56]$/.test(finished) &&
      (left !== 'serial 6' || finished === 'serial 6') &&
      status === 0 &&
      last === 'serial 6';
    if (!isRight) wrong.push(`write ${at}: ${signal}, ${left}, then ${said} ${finished}, then ${status} ${last}`);
  }
  expect(wrong).toEqual([]);
  expect(outcomes).toContain('serial');
}, 600_000);

test('a watch that is killed at any write of a push leaves the release of before or the next one, whole; another one goes on from it', async () => {
  const layout = join(scratch, 'layout');
  const push = (which: number, killedAt = 0): Ran =>
    run(killedAt, layout, join(import.meta.dirname, 'publish-once.ts'), layout, JSON.stringify(services[which]));
  /** Which release all of its parts are of. */
  const published = async (): Promise<string> => {
    const content = layoutContent('layout', directoryReader(layout));
    const { files } = await pullRelease(content, await content.resolve('production'));
    const [, serial] = /^serial: (\d+)$/m.exec(files.get('release.yaml') ?? '') ?? [];
    const bundle = sampleBundle({ services: services[Number(serial) - 1] ?? {} });
    const sums = sumsOf(bundle, files.get('release.yaml') ?? '');
    const isWhole = files.get(sumsFile) === sums && [...bundle].every(([path, text]) => files.get(path) === text);
    return isWhole ? `serial ${serial}` : `a mixture of ${serial}`;
  };
  push(0);
  expect(await published()).toBe('serial 1');
  cpSync(layout, join(scratch, 'layout-before'), { recursive: true });
  const chosen = chosenOf(push(1));
  expect(await published()).toBe('serial 2');
  const found: (readonly unknown[])[] = [];
  for (const at of chosen) {
    rmSync(layout, { recursive: true });
    cpSync(join(scratch, 'layout-before'), layout, { recursive: true });
    const { signal } = push(1, at);
    const left = await published();
    push(1);
    const second = await published();
    push(2);
    found.push([signal, left === 'serial 1' ? 'serial 2' : left, second, await published(), leftIn(layout)]);
  }
  expect(found).toEqual(chosen.map(() => ['SIGKILL', 'serial 2', 'serial 2', 'serial 3', []]));
}, 600_000);

/** What a killed writer left. */
const leftIn = (dir: string): readonly string[] =>
  readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) => path.includes('.sluice'));

test.for([0, 64])(
  'a disk with %i kB left keeps the release that is placed; with space the next one follows',
  { timeout: 120_000 },
  async (left, context) => {
    const disk = join(scratch, 'disk');
    for (const name of ['five', 'six', 'placed-1', 'placed-2', 'placed-3'])
      rmSync(join(scratch, name), { recursive: true, force: true });
    mkdirSync(disk, { recursive: true });
    const isRoot = process.getuid?.() === 0;
    if (!isRoot || spawnSync('/usr/bin/unshare', ['-m', '/bin/true']).status !== 0)
      return context.skip('no mount namespace of its own: needs root');
    writeSource(join(disk, 'fetched'));
    publish({ serial: 5, files: five });
    cpSync(release, join(scratch, 'five'), { recursive: true });
    publish({ serial: 6, files: sampleBundle({ services: Object.fromEntries(many) }) });
    cpSync(release, join(scratch, 'six'), { recursive: true });
    const fetch = `${process.execPath} ${programPath('sluiced')} fetch --once -c ${config}`;
    const script = `
    mount -t tmpfs -o size=1m tmpfs ${disk}
    use() { rm -rf ${release}; cp -a ${scratch}/$1 ${release}; }
    use five; ${fetch} >&2; cp -a ${disk}/fetched/release ${scratch}/placed-1
    dd if=/dev/zero of=${disk}/filler bs=1k count=100000 2>/dev/null
    truncate -s -${left}k ${disk}/filler
    use six; ${fetch} >&2; echo "exit $?"; cp -a ${disk}/fetched/release ${scratch}/placed-2
    test ! -e ${disk}/fetched/staged && echo clean
    rm ${disk}/filler; ${fetch} >&2; echo "exit $?"; cp -a ${disk}/fetched/release ${scratch}/placed-3`;
    const { stdout, stderr } = spawnSync('/usr/bin/unshare', ['-m', '/bin/sh', '-c', script], {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin:/usr/sbin' },
    });
    expect(stdout).toBe('exit 2\nclean\nexit 0\n');
    expect(stderr).toMatch(/OUTPUT_UNWRITABLE.*ENOSPC|no space left/i);
    expect(readFileSync(join(scratch, 'placed-2/SHA256SUMS'), 'utf8')).toBe(
      readFileSync(join(scratch, 'five/SHA256SUMS'), 'utf8'),
    );
    expect(() =>
      execFileSync('/usr/bin/diff', ['-r', join(scratch, 'placed-1'), join(scratch, 'placed-2')]),
    ).not.toThrow();
    expect(readFileSync(join(scratch, 'placed-3/SHA256SUMS'), 'utf8')).toBe(
      readFileSync(join(scratch, 'six/SHA256SUMS'), 'utf8'),
    );
  },
);

const many = Array.from({ length: 60 }, (_, n): [string, number[]] => [`shop/s${n}`, [1, 2, 3]]);
