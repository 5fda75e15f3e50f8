import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  changesSince,
  makeRelease,
  printArchive,
  printRelease,
  type Release,
  signatureFile,
  sumsOf,
} from '@sluice/bundle';
import { atTier, makeKey, programPath, signBy } from '@sluice/testing';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { place } from '../../inbox/archive/place.ts';
import { Inbox } from '../../inbox/inbox.ts';
import { trustOf } from '../../inbox/trust.ts';
import { sampleBundle, sampleNode, writeBundle } from '../../testing/bundle.fixture.ts';
import { makeReleaseGate } from '../session/gate.ts';
import { importArchive } from './import.ts';
import { loadConfig, printFailure } from '../terminal/terminal.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-import-'));
const at = (name: string): string => join(scratch, name);
const bundle = at('node/rendered');
const store = `${bundle}.releases`;
const archive = at('a.tar.zst');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
makeKey(at('mallory'));
writeFileSync(at('allowed_signers'), `alice namespaces="sluice-release" ${makeKey(at('alice'))}\n`, { mode: 0o644 });
const head = 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n';
writeFileSync(
  at('sluiced.yaml'),
  `${head}node: ${sampleNode}\nbundle: ${bundle}\nstate: ${at('state')}\nsignatures: { allowedSigners: ${at('allowed_signers')} }\n`,
);

beforeEach(() => {
  for (const name of ['node', 'state', 'a.tar.zst']) rmSync(at(name), { recursive: true, force: true });
  mkdirSync(at('node'));
});

/** All files of a signed release. */
function release(serial: number, endpoints: readonly number[] = [1], by = 'alice'): Map<string, string> {
  const files = sampleBundle({ services: { 'shop/web': endpoints, 'shop/api': [7] } });
  return signed(files, serial, by);
}

function signed(
  files: Map<string, string>,
  serial: number,
  by: string,
  change: (made: Release) => Release = (made) => made,
): Map<string, string> {
  const made = makeRelease(files, { serial, source: 'c'.repeat(40) });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  const text = printRelease(change(made));
  const sums = sumsOf(files, text);
  const signature = signBy(at(by), 'sluice-release', sums);
  return new Map([...files, ['release.yaml', text], ['SHA256SUMS', sums], [signatureFile(), signature]]);
}

function write(files: ReadonlyMap<string, string>, base?: ReadonlyMap<string, string>): void {
  const made = base === undefined ? { files } : changesSince(files, base.get('SHA256SUMS') as string);
  if (typeof made === 'string') throw new Error(made);
  writeFileSync(archive, printArchive(made));
}

async function bring(...more: readonly ReadonlyMap<string, string>[]): Promise<{ status: number; said: string }> {
  if (more[0]) write(more[0], more[1]);
  let said = '';
  const terminal = { out: (text: string) => void (said += text), err: (text: string) => void (said += text) };
  try {
    return { status: await importArchive(archive, { config: at('sluiced.yaml') }, terminal), said };
  } catch (error) {
    return { status: printFailure(error, terminal), said };
  }
}

test('a node that fetches its releases takes no archive: two writers would undo each other', async () => {
  write(release(5));
  const config = at('source.yaml');
  const source = `source: { dir: { path: /media }, directory: ${at('node')} }`;
  writeFileSync(config, `${head}node: ${sampleNode}\n${source}\n`, { mode: 0o644 });
  const terminal = { out: () => undefined, err: () => undefined };
  await expect(importArchive(archive, { config }, terminal)).rejects.toThrow('this node fetches its releases');
});

/** What the daemon says of the directory. */
async function seen(): Promise<string> {
  const config = loadConfig({ config: at('sluiced.yaml') });
  const arrival = await new Inbox(
    bundle,
    Date.now,
    trustOf(undefined),
    makeReleaseGate(config, () => true),
  ).look();
  if (arrival.kind === 'refused') return arrival.problems.map(({ code }) => code).join();
  return arrival.kind === 'absent' ? 'absent' : `serial ${arrival.release?.serial}`;
}
const inStore = (): readonly string[] =>
  readdirSync(store)
    .filter((name) => name !== 'lock')
    .map((name) => name.replace(/-[0-9a-f]{12}/, ''))
    .toSorted();

describe('sluiced import', () => {
  test('installs a release where the daemon finds it, with a link to it', async () => {
    expect(await bring(release(5))).toMatchObject({
      status: 0,
      said: expect.stringContaining(`${bundle}: release 5 of test, signed by alice\n`),
    });
    expect(await seen()).toBe('serial 5');
    expect(readlinkSync(bundle)).toMatch(/^rendered\.releases\/5-[0-9a-f]{12}$/);
    expect(readdirSync(at('node')).toSorted()).toEqual(['rendered', 'rendered.releases']);
  });

  test('replaces it by the next one, keeps the previous one and removes older ones', async () => {
    for (const serial of [5, 6, 7]) await bring(release(serial, [serial]));
    expect(await seen()).toBe('serial 7');
    expect(inStore()).toEqual(['6', '7']);
  });

  test('applies an incremental archive to the installed release', async () => {
    const [old, fresh] = [release(5), release(6, [1, 2])];
    await bring(old);
    expect(await bring(fresh, old)).toMatchObject({ status: 0 });
    expect(await seen()).toBe('serial 6');
    for (const [path, text] of fresh) expect(readFileSync(join(bundle, path), 'utf8')).toBe(text);
  });

  test('accepts an incremental archive again, with signatures added since', async () => {
    const [old, fresh] = [release(5), release(6, [1, 2])];
    await bring(old);
    await bring(fresh, old);
    const before = readlinkSync(bundle);
    expect(await bring(fresh, old)).toMatchObject({ status: 0, said: expect.stringContaining('unchanged') });
    expect(readlinkSync(bundle)).toBe(before);
    fresh.set(signatureFile('bob'), fresh.get(signatureFile()) as string);
    expect(await bring(fresh, old)).toMatchObject({ status: 0 });
    expect(await seen()).toBe('serial 6');
    for (const [path, text] of fresh) expect(readFileSync(join(bundle, path), 'utf8')).toBe(text);
  });

  test('reports an unchanged release, and repairs a damaged one', async () => {
    await bring(release(5));
    expect(await bring()).toMatchObject({ status: 0, said: expect.stringContaining('unchanged') });
    expect(inStore()).toEqual(['5']);
    truncateSync(join(bundle, 'cluster.yaml'));
    expect(await seen()).toBe('BUNDLE_INCOMPLETE');
    expect(await bring()).toMatchObject({ status: 0 });
    expect(await seen()).toBe('serial 5');
  });

  test('replaces a plain directory, and keeps it', async () => {
    for (const [path, text] of release(4)) {
      mkdirSync(join(bundle, path, '..'), { recursive: true });
      writeFileSync(join(bundle, path), text);
    }
    expect(await seen()).toBe('serial 4');
    expect(await bring(release(5))).toMatchObject({ status: 0 });
    expect(await seen()).toBe('serial 5');
    expect(inStore()).toEqual(['5', 'before-import.1']);
  });

  test('replaces only the link when the bundle directory is a foreign link', async () => {
    mkdirSync(at('elsewhere/kept'), { recursive: true });
    symlinkSync(at('elsewhere'), bundle);
    expect(await bring(release(5))).toMatchObject({ status: 0 });
    expect(existsSync(at('elsewhere/kept'))).toBe(true);
    rmSync(at('elsewhere'), { recursive: true });
  });

  test('makes files that only their owner may write, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      await bring(release(5));
    } finally {
      process.umask(before);
    }
    expect(await seen()).toBe('serial 5');
    expect(lstatSync(join(bundle, 'cluster.yaml')).mode & 0o777).toBe(0o644);
  });
});

test('a second import waits for the first', async () => {
  mkdirSync(store);
  const first = spawn('flock', [
    '-x',
    join(store, 'lock'),
    'sh',
    '-c',
    'echo has it; sleep 1; rm "$0"',
    join(store, 'busy'),
  ]);
  writeFileSync(join(store, 'busy'), '');
  await new Promise((done) => first.stdout.once('data', done));
  await bring(release(5));
  expect(existsSync(join(store, 'busy'))).toBe(false);
  expect(await seen()).toBe('serial 5');
});

test.each([
  ['does not take the files', { exitCode: 1, stdout: '', stderr: '', why: 'exit code 1: No space left on device' }],
  ['does not answer', { exitCode: undefined, stdout: '', stderr: '', why: 'timed out' }],
])('keeps the previous release on a disk that %s', async (_title, ran) => {
  await bring(release(5));
  const placed = await place(bundle, `6-${'0'.repeat(12)}`, release(6), async () => ran);
  expect(placed).toMatchObject({ code: 'OUTPUT_UNWRITABLE', message: expect.stringContaining(ran.why) });
  expect(await seen()).toBe('serial 5');
  expect(inStore()).toEqual(['5']);
});

test('leaves the previous or the new release whole whenever an import is killed', {
  timeout: 120_000,
}, async () => {
  const program = programPath('sluiced');
  const run = async (killAfterMs?: number): Promise<void> => {
    const child = spawn(program, ['import', archive, '-c', at('sluiced.yaml')], { stdio: 'ignore' });
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs);
    await new Promise((done) => child.once('exit', done));
    clearTimeout(timer);
  };
  const many = sampleBundle({
    services: Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`shop/s${n}`, [n]])),
  });
  await bring(release(5));
  await seen();
  write(signed(many, 6, 'alice'));
  const started = performance.now();
  await run();
  const wholeMs = performance.now() - started;
  const rounds = atTier({ quick: 2, test: 8 });
  for (let nth = 0; nth < rounds; nth++) {
    // From the start of the program's own work to its end; what happens there is not the same twice.
    for (const name of ['node', 'state']) rmSync(at(name), { recursive: true, force: true });
    mkdirSync(at('node'));
    writeFileSync(at('six.tar.zst'), readFileSync(archive));
    await bring(release(5));
    writeFileSync(archive, readFileSync(at('six.tar.zst')));
    await run(wholeMs * (0.4 + (0.64 * nth) / rounds));
    expect(['serial 5', 'serial 6']).toContain(await seen());
    await bring();
    expect(await seen()).toBe('serial 6');
    expect(readdirSync(store).filter((name) => name.startsWith('.'))).toEqual([]);
  }
});

const foreign = (): Map<string, string> => {
  const files = sampleBundle();
  const text = files.get(`nodes/${sampleNode}/node.yaml`) as string;
  files.delete(`nodes/${sampleNode}/node.yaml`);
  return signed(files.set('nodes/node-z/node.yaml', text), 5, 'alice');
};
const without = (path: string): Map<string, string> => {
  const files = release(5);
  files.delete(path);
  return files;
};
/** What a signer says of the node's rules is wrong, by mistake or not. */
const lying = (): Map<string, string> =>
  signed(sampleBundle(), 5, 'alice', (made) => ({
    ...made,
    nodes: { [sampleNode]: { profile: 'default', version: '0'.repeat(16) } },
  }));

const refused: readonly [title: string, prepare: () => void, says: string][] = [
  ['something that is no archive', () => writeFileSync(archive, 'x'), 'ARCHIVE_INVALID'],
  ['a file that is not there', () => {}, 'INPUT_UNREADABLE'],
  ['a directory', () => mkdirSync(archive), 'INPUT_UNREADABLE'],
  ['a pipe, which would wait for ever', () => execFileSync('mkfifo', [archive]), 'INPUT_UNREADABLE'],
  ['a huge file without content', () => (writeFileSync(archive, ''), truncateSync(archive, 2 ** 31)), 'larger than'],
  ['an archive without a release', () => write(sampleBundle()), 'SHA256SUMS is missing'],
  ['a release without a signature', () => write(without('SHA256SUMS.sig')), 'RELEASE_UNSIGNED'],
  ['a release with a foreign signature', () => write(release(5, [1], 'mallory')), 'RELEASE_UNSIGNED'],
  ['a changed byte', () => write(release(5).set('cluster.yaml', 'x\n')), 'cluster.yaml has another digest'],
  ['a file that is missing', () => write(without('profiles/default/profile.yaml')), 'is listed, but missing'],
  ['a file too many', () => write(release(5).set('nodes/node-b/node.yaml', 'x\n')), 'does not name'],
  ['an archive for another node', () => write(foreign()), 'RELEASE_ELSEWHERE'],
  [
    'an archive without the file of the node',
    () => write(without(`nodes/${sampleNode}/node.yaml`)),
    'it has no rules for',
  ],
  ['rules that are not those that release.yaml names', () => write(lying()), 'release.yaml has 0000'],
  ['changes without their base', () => write(release(6), release(5)), 'ARCHIVE_BASE'],
];

test('names a store that cannot be written', async () => {
  mkdirSync(join(store, 'lock'), { recursive: true });
  const { status, said } = await bring(release(5));
  expect(status).toBe(3);
  expect(said).toContain(`Cannot place the release at ${bundle}: `);
  expect(said).not.toContain('state');
});

describe('sluiced import refuses, and leaves everything as it was:', () => {
  test.each(refused)('%s', async (_title, prepare, says) => {
    prepare();
    const { status, said } = await bring();
    expect(status).toBeGreaterThan(1);
    expect(said).toContain(says);
    expect(await seen()).toBe('absent');
    expect(existsSync(at('state/release.json'))).toBe(false);
    expect(existsSync(store) ? inStore() : []).toEqual([]);
  });

  test('an incremental archive for another base', async () => {
    await bring(release(5));
    expect(await bring(release(7, [7]), release(6, [6]))).toMatchObject({
      status: 3,
      said: expect.stringContaining('ARCHIVE_BASE'),
    });
    expect(await seen()).toBe('serial 5');
  });

  test('an incremental archive with a damaged base', async () => {
    const [old, fresh] = [release(5), release(6, [1, 2])];
    await bring(old);
    truncateSync(join(bundle, 'cluster.yaml'));
    expect(await bring(fresh, old)).toMatchObject({ status: 3, said: expect.stringContaining('cluster.yaml') });
    expect(inStore()).toEqual(['5']);
  });

  test('an older release than the node has accepted', async () => {
    await bring(release(5));
    await seen();
    expect(await bring(release(4))).toMatchObject({ status: 3, said: expect.stringContaining('RELEASE_SERIAL') });
    expect(await seen()).toBe('serial 5');
  });

  test.each([
    ['a Git work tree', () => mkdirSync(join(bundle, '.git'), { recursive: true })],
    ['a link to a Git work tree', () => (mkdirSync(at('node/w/.git'), { recursive: true }), symlinkSync('w', bundle))],
    ['output of sluice render', () => writeBundle(bundle, sampleBundle())],
    ['a file', () => writeFileSync(bundle, 'x')],
  ])('to replace %s', async (_title, prepare) => {
    prepare();
    const before = lstatSync(bundle).ino;
    expect(await bring(release(5))).toMatchObject({ status: 3, said: expect.stringContaining('OUTPUT_NOT_A_BUNDLE') });
    expect(lstatSync(bundle).ino).toBe(before);
  });
});
