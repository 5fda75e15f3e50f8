import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { sampleBundle, sampleNode, writeBundle } from '../testing/bundle.fixture.ts';
import { GateScene, noon } from '../testing/gate.fixture.ts';
import type { GateRules } from './release-gate.ts';

const {
  acceptFive,
  allow,
  at,
  directory,
  end,
  lineOf,
  look,
  publish,
  reset,
  said,
  scratch,
  signatureOf,
  signersFile,
  state,
} = new GateScene();
beforeEach(reset);
afterAll(end);

describe('a valid release', () => {
  test('is accepted with the files that the node needs', async () => {
    publish();
    const arrival = await look();
    expect(arrival).toMatchObject({ kind: 'bundle', release: { cluster: 'test', serial: 5, signers: ['alice'] } });
    expect(arrival.kind === 'bundle' && arrival.tree.files.has('cluster.yaml')).toBe(true);
  });

  test('needs as many signers as the threshold; more signers, and unknown ones, do no harm', async () => {
    publish();
    expect(await said({ threshold: 2 })).toContain('good signatures of alice only, 2 needed');
    publish({ by: ['alice', 'mallory', 'bob'] });
    expect(await said({ threshold: 2 })).toBe('serial 5 by alice,bob');
  });

  test('may lack what other nodes run', async () => {
    const files = sampleBundle();
    files.set('nodes/node-b/node.yaml', files.get(`nodes/${sampleNode}/node.yaml`) as string);
    publish({ files });
    rmSync(join(directory, 'nodes/node-b'), { recursive: true });
    expect(await said()).toBe('serial 5 by alice');
  });

  test('is accepted from a Git work tree, and refused there when a byte differs', async () => {
    publish();
    const git = (...args: readonly string[]): void =>
      void execFileSync('/usr/bin/git', ['-C', directory, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
        stdio: 'ignore',
      });
    git('init', '-q');
    git('add', '-A');
    git('commit', '-q', '-m', 'release');
    expect(await said()).toBe('serial 5 by alice');
    appendFileSync(at('cluster.yaml'), '# x\n');
    expect(await said()).toBe('serial 5 by alice');
    git('commit', '-q', '-a', '-m', 'changed');
    expect(await said()).toContain('cluster.yaml has another digest');
  });

  test('that a dry run has seen is not remembered', async () => {
    publish({ serial: 9 });
    expect(await said({}, noon, false)).toContain('serial 9');
    publish({ serial: 8 });
    expect(await said()).toContain('serial 8');
  });
});

const other = sampleBundle({ services: { 'shop/web': [7] } });
const web = 'profiles/default/services/shop/web.iptables';

const loseCopy = (): void => rmSync(join(state, 'release.json.copy'));

test.each([
  ['cut', (text: string) => text.slice(0, 20)],
  ['empty', () => ''],
  ['changed in its serial', (text: string) => text.replace('"serial":5', '"serial":9')],
  ['changed in its digest', (text: string) => text.replace(/"digest":"./, (all) => `${all.slice(0, -1)}x`)],
  ['changed in its digest to another digit', (text: string) => text.replace(/(?<="digest":").{64}/, 'a'.repeat(64))],
])('a record that is %s costs nothing: its copy counts', async (_title, damage) => {
  await acceptFive();
  const path = join(state, 'release.json');
  writeFileSync(path, damage(readFileSync(path, 'utf8')));
  publish({ serial: 4 });
  expect(await said()).toMatch(/^refused RELEASE_SERIAL/);
  publish({ serial: 6 });
  expect(await said()).toBe('serial 6 by alice');
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ serial: 6 });
});

describe('attacks', () => {
  const attacks: readonly (readonly [string, () => void, string, Partial<GateRules>?])[] = [
    ['rollback: an older release', () => publish({ serial: 4 }), 'RELEASE_SERIAL'],
    [
      'rollback after the state was lost: below the floor of the config',
      () => (rmSync(state, { recursive: true }), publish({ serial: 4 })),
      'below the floor 5',
      { floor: 5 },
    ],
    [
      'rollback after the record was cut, and its copy',
      () => (writeFileSync(join(state, 'release.json'), '{"schema":1'), loseCopy()),
      'NODE_STATE_INVALID',
    ],
    [
      'rollback by a record of serial 0',
      () => (
        writeFileSync(
          join(state, 'release.json'),
          JSON.stringify({ schema: 1, cluster: 'test', serial: 0, digest: 'a'.repeat(64), signers: [] }),
        ),
        loseCopy()
      ),
      'NODE_STATE_INVALID',
    ],
    [
      'equivocation: the same serial with other content',
      () => publish({ serial: 5, files: other }),
      'RELEASE_EQUIVOCATION',
    ],
    ['fast-forward: a serial far ahead', () => publish({ serial: 1_000_006 }), 'more than 1000000 ahead'],
    [
      'wrong node: a release without this one',
      () => publish({ serial: 6, change: (one) => ({ ...one, nodes: {} }) }),
      'RELEASE_ELSEWHERE',
    ],
    [
      'wrong node: the name of a property of every object',
      () => publish({ serial: 6 }),
      'has no node constructor',
      { node: 'constructor' },
    ],
    [
      'wrong cluster: other than before',
      () =>
        publish({
          serial: 6,
          files: new Map([
            ...other,
            ['cluster.yaml', (other.get('cluster.yaml') as string).replace('name: test', 'name: prod')],
          ]),
        }),
      'RELEASE_ELSEWHERE',
    ],
    ['wrong cluster: other than in the config', () => publish({ serial: 6 }), 'RELEASE_ELSEWHERE', { cluster: 'prod' }],
    [
      'mix and match: a file of another release',
      () => (publish({ serial: 6 }), writeFileSync(at(web), other.get(web) as string)),
      'another digest',
    ],
    [
      'splice: release.yaml of another release',
      () => {
        publish({ serial: 7, files: other });
        copyFileSync(at('release.yaml'), join(scratch, 'kept'));
        publish({ serial: 6 });
        copyFileSync(join(scratch, 'kept'), at('release.yaml'));
      },
      'another digest',
    ],
    [
      'splice: SHA256SUMS of another release',
      () => {
        publish({ serial: 7, files: other });
        copyFileSync(at('SHA256SUMS'), join(scratch, 'kept'));
        publish({ serial: 6 });
        copyFileSync(join(scratch, 'kept'), at('SHA256SUMS'));
      },
      'another digest',
    ],
    [
      'splice: the signature of another release',
      () => {
        publish({ serial: 7, files: other });
        copyFileSync(at('SHA256SUMS.sig'), join(scratch, 'kept'));
        publish({ serial: 6 });
        copyFileSync(join(scratch, 'kept'), at('SHA256SUMS.sig'));
      },
      'ssh-keygen refuses it',
    ],
    ['a file removed', () => (publish({ serial: 6 }), rmSync(at(web))), 'listed, but missing'],
    ['cluster.yaml removed', () => (publish({ serial: 6 }), rmSync(at('cluster.yaml'))), 'listed, but missing'],
    [
      'a file added',
      () => (publish({ serial: 6 }), writeFileSync(at('profiles/default/services/shop/evil.iptables'), '')),
      'does not name',
    ],
    [
      'endless data: a signature of 1 MiB',
      () => (publish({ serial: 6 }), writeFileSync(at('SHA256SUMS.sig'), 'A'.repeat(1 << 20))),
      'larger than 16384',
    ],
    [
      'endless data: a file of 9 MiB',
      () => (publish({ serial: 6 }), writeFileSync(at('release.yaml'), Buffer.alloc(9 << 20, '#'))),
      'larger than',
    ],
    ['no signature', () => publish({ serial: 6, by: [] }), 'no good signature'],
    ['a foreign signature', () => publish({ serial: 6, by: ['mallory'] }), 'not in allowed_signers'],
    [
      'no release at all, but a complete bundle',
      () => (rmSync(directory, { recursive: true }), writeBundle(directory, other)),
      'it is not a release',
    ],
    [
      'a release without release.yaml',
      () => {
        publish({ serial: 6 });
        rmSync(at('release.yaml'));
        const sums = readFileSync(at('SHA256SUMS'), 'utf8').replace(/.*release\.yaml\n/, '');
        writeFileSync(at('SHA256SUMS'), sums);
        writeFileSync(at('SHA256SUMS.sig'), signatureOf('alice', sums));
      },
      'RELEASE_INVALID',
    ],
    [
      'a feature that this node does not know',
      () => publish({ serial: 6, change: (one) => ({ ...one, requires: ['mode-none' as 'mode-ipvs'] }) }),
      'RELEASE_INVALID',
    ],
    [
      'allowed_signers that others may write',
      () => (publish({ serial: 6 }), chmodSync(signersFile, 0o666)),
      'is writable by other users',
    ],
    [
      'allowed_signers that is a link',
      () => {
        publish({ serial: 6 });
        renameSync(signersFile, `${signersFile}.real`);
        symlinkSync(`${signersFile}.real`, signersFile);
      },
      'SIGNERS_INVALID',
    ],
    ['allowed_signers that is gone', () => (publish({ serial: 6 }), rmSync(signersFile)), 'SIGNERS_INVALID'],
    [
      'allowed_signers that is empty',
      () => (publish({ serial: 6 }), allow('')),
      'principals for namespace sluice-release: 0',
    ],
    [
      'an allowed_signers line that is good for everything',
      () => (publish({ serial: 6 }), allow(lineOf('bob'), lineOf('alice', '').replace('  ', ' '))),
      'SIGNERS_INVALID',
    ],
    [
      'a key that expired',
      () => (publish({ serial: 6 }), allow(lineOf('alice', 'namespaces="sluice-release",valid-before="20200101Z"'))),
      'expired',
    ],
  ];
  const rows = attacks.map(([title, attack, expected, rules = {}]) => ({ title, attack, expected, rules }));
  test.each(rows)('refuses $title, and accepts the next good release', async ({ attack, expected, rules }) => {
    await acceptFive();
    attack();
    expect(await said(rules)).toMatch(new RegExp(`^refused .*${expected}`));
    rmSync(signersFile, { force: true });
    allow(lineOf('alice'), lineOf('bob'));
    if (expected === 'NODE_STATE_INVALID') rmSync(join(state, 'release.json'));
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
  });

  test.each([
    ['a malformed signature', 1, () => 'garbage\n'],
    ['2,000 files that are no signatures', 2000, () => 'garbage\n'],
    ['17 copies of the signature', 17, () => readFileSync(at('SHA256SUMS.sig'), 'latin1')],
  ])('accepts a release with a good signature and %s', async (_title, count, text) => {
    publish({ serial: 6 });
    const content = text();
    for (let one = 0; one < count; one++) writeFileSync(at(`SHA256SUMS.a${one}.sig`), content);
    expect(await said()).toBe('serial 6 by alice');
  });

  test('recognises an urgent release', async () => {
    publish({ serial: 6, change: (one) => ({ ...one, requires: ['mode-iptables', 'urgent'] }) });
    expect(await look()).toMatchObject({ kind: 'bundle', isUrgent: true });
    publish({ serial: 7 });
    expect(await look()).not.toHaveProperty('isUrgent');
  });

  test('recognises a release that says that it takes Services away', async () => {
    publish({ serial: 6, change: (one) => ({ ...one, requires: ['accept-removal', 'mode-iptables'] }) });
    expect(await look()).toMatchObject({ kind: 'bundle', acceptsRemoval: true });
    publish({ serial: 7 });
    expect(await look()).not.toHaveProperty('acceptsRemoval');
  });

  test('accepts and keeps an expired release, with an alarm (freeze attack)', async () => {
    publish({ expires: '2026-12-01T12:00:00Z' });
    expect(await said({}, noon - 1000)).toBe('serial 5 by alice');
    expect(await said()).toBe('serial 5 by alice RELEASE_EXPIRED');
    publish({ serial: 6, expires: '2026-11-01T00:00:00Z' });
    expect(await said()).toBe('serial 6 by alice RELEASE_EXPIRED');
  });
});

describe('an accepted release stays accepted', () => {
  test.each([
    ['the key was withdrawn', () => allow(lineOf('bob'))],
    [
      'the key expired, or the clock went wrong',
      () => allow(lineOf('alice', 'namespaces="sluice-release",valid-after="29990101Z"')),
    ],
    ['allowed_signers is gone', () => rmSync(signersFile)],
    ['the signature was lost', () => rmSync(at('SHA256SUMS.sig'))],
  ])('when %s: an alarm, and the same release', async (_title, lose) => {
    await acceptFive();
    lose();
    expect(await said()).toBe('serial 5 by alice RELEASE_SIGNERS_CHANGED');
  });

  test('raises an alarm when signatures cannot be checked for want of disk space, and accepts nothing new', async () => {
    await acceptFive();
    vi.stubEnv('TMPDIR', join(scratch, 'nowhere'));
    try {
      expect(await said(), 'the state directory is enough').toBe('serial 5 by alice');
      expect(readdirSync(state)).toEqual(['release.json', 'release.json.copy']);
      // The longest path that takes `/release.json.copy` takes no longer name.
      const full = { state: state + '/.'.repeat(Math.floor((4095 - state.length - '/release.json.copy'.length) / 2)) };
      expect(await said(full)).toBe('serial 5 by alice RELEASE_SIGNERS_CHANGED');
      publish({ serial: 6 });
      expect(await said(full)).toMatch(/^refused RELEASE_UNSIGNED .*cannot run the check/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('refuses it when a byte changes', async () => {
    await acceptFive();
    appendFileSync(at('cluster.yaml'), '# x\n');
    expect(await said()).toContain('BUNDLE_INCOMPLETE');
  });

  test('accepts no new release when the state directory cannot be written', async () => {
    publish();
    writeFileSync(state, 'a file in its place');
    expect(await said()).toContain('NODE_STATE_INVALID');
  });

  test('recognises a copy with an additional signature', async () => {
    await acceptFive();
    mkdirSync(join(scratch, 'copy'), { recursive: true });
    cpSync(directory, join(scratch, 'copy'), { recursive: true });
    writeFileSync(at('SHA256SUMS.bob.sig'), signatureOf('bob', readFileSync(at('SHA256SUMS'), 'utf8')));
    expect(await said()).toBe('serial 5 by alice');
  });
});
