import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type BundleFiles,
  fileDigest,
  makeRelease,
  printRelease,
  type Release,
  type ReleaseTerms,
  sumsOf,
} from '@sluice/bundle';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { runChildren } from '../kernel/run.ts';
import { sampleBundle, sampleNode, writeBundle } from '../testing/bundle.fixture.ts';
import { type Arrival, Inbox } from './inbox.ts';
import { type GateRules, ReleaseGate } from './release-gate.ts';
import { trustOf } from './trust.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-gate-'));
const directory = join(scratch, 'release');
const state = join(scratch, 'state');
const signersFile = join(scratch, 'allowed_signers');
const at = (path: string): string => join(directory, path);
const keys = ['alice', 'bob', 'mallory', 'ends'] as const;
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
for (const name of keys)
  execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', join(scratch, name)]);

const lineOf = (name: string, options = 'namespaces="sluice-release"'): string =>
  `${name} ${options} ${readFileSync(join(scratch, `${name}.pub`), 'utf8')
    .split(' ')
    .slice(0, 2)
    .join(' ')}\n`;
const allow = (...lines: readonly string[]): void => writeFileSync(signersFile, lines.join(''), { mode: 0o644 });
/** `ends` has the role for endpoints. */
const spaceOf = (name: string): string => (name === 'ends' ? 'sluice-endpoints' : 'sluice-release');
const signatureOf = (name: string, sums: string, space = spaceOf(name)): string =>
  execFileSync('/usr/bin/ssh-keygen', ['-Y', 'sign', '-q', '-n', space, '-f', join(scratch, name)], {
    input: sums,
    encoding: 'utf8',
  });

interface Made extends Partial<ReleaseTerms> {
  readonly files?: BundleFiles;
  readonly change?: (release: Release) => Release;
  readonly by?: readonly string[];
}

/** Publishes a release where the node looks for it, signed by alice unless told otherwise. */
function publish({
  serial = 5,
  revision,
  expires,
  files = sampleBundle(),
  change = (one) => one,
  by = ['alice'],
}: Made = {}): void {
  const made = makeRelease(files, {
    serial,
    source: 'c'.repeat(40),
    ...(revision === undefined ? {} : { revision }),
    ...(expires ? { expires } : {}),
  });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  const text = printRelease(change(made));
  const sums = sumsOf(files, text);
  rmSync(directory, { recursive: true, force: true });
  writeBundle(directory, files);
  rmSync(join(directory, '.sluice-complete'));
  writeFileSync(join(directory, 'release.yaml'), text);
  writeFileSync(join(directory, 'SHA256SUMS'), sums);
  for (const [index, name] of by.entries())
    writeFileSync(join(directory, index === 0 ? 'SHA256SUMS.sig' : `SHA256SUMS.${name}.sig`), signatureOf(name, sums));
}

const noon = Date.parse('2026-12-01T12:00:00Z');
/** A new process looks: nothing is remembered but what is on the disk. */
function look(rules: Partial<GateRules> = {}, nowMs = noon, remember = true): Promise<Arrival> {
  const all = { node: sampleNode, state, allowedSigners: signersFile, threshold: 1, floor: 0, ...rules };
  const gate = new ReleaseGate(all, { run: runChildren(), nowMs: () => nowMs, trust: trustOf(undefined), remember });
  return new Inbox(directory, all.node, () => nowMs, undefined, gate).look();
}
/** What the node says, in one line. */
async function said(...how: Parameters<typeof look>): Promise<string> {
  const arrival = await look(...how);
  if (arrival.kind === 'absent') return 'absent';
  if (arrival.kind === 'refused')
    return `refused ${arrival.problems.map(({ code, message }) => `${code} ${message}`).join()}`;
  const alarms = (arrival.alarms ?? []).map(({ code }) => ` ${code}`).join('');
  const { serial, revision = 0, signers = [], onlyEndpoints } = arrival.release ?? {};
  const what = `serial ${serial}${revision > 0 ? `.${revision}` : ''} by ${signers.join()}`;
  return `${what}${onlyEndpoints ? ', endpoints only' : ''}${alarms}`;
}

beforeEach(() => {
  rmSync(state, { recursive: true, force: true });
  rmSync(directory, { recursive: true, force: true });
  allow(lineOf('alice'), lineOf('bob'));
});

describe('a release that is as it should be', () => {
  test('is taken with the files that the node needs', async () => {
    publish();
    const arrival = await look();
    expect(arrival).toMatchObject({ kind: 'bundle', release: { cluster: 'test', serial: 5, signers: ['alice'] } });
    expect(arrival.kind === 'bundle' && arrival.tree.files.has('cluster.yaml')).toBe(true);
  });

  test('needs as many signers as the threshold says; more, and strangers, do no harm', async () => {
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

  test('is taken from a Git work tree, and refused there when a byte differs', async () => {
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

/** What a node has run before each attack: serial 5, by alice. */
async function acceptFive(): Promise<void> {
  publish({ serial: 5 });
  await look();
}
const other = sampleBundle({ services: { 'shop/web': [7] } });
const web = 'profiles/default/services/shop/web.iptables';

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
      'rollback after the record was cut',
      () => writeFileSync(join(state, 'release.json'), '{"schema":1'),
      'NODE_STATE_INVALID',
    ],
    [
      'rollback by a record of serial 0',
      () =>
        writeFileSync(
          join(state, 'release.json'),
          JSON.stringify({ schema: 1, cluster: 'test', serial: 0, digest: 'a'.repeat(64), signers: [] }),
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
    ['a file removed', () => (publish({ serial: 6 }), rmSync(at(web))), 'named and not there'],
    ['cluster.yaml removed', () => (publish({ serial: 6 }), rmSync(at('cluster.yaml'))), 'named and not there'],
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
      'endless data: 17 signatures',
      () => {
        publish({ serial: 6 });
        for (let one = 0; one < 16; one++) copyFileSync(at('SHA256SUMS.sig'), at(`SHA256SUMS.s${one}.sig`));
      },
      'more than 16',
    ],
    [
      'endless data: a file of 9 MiB',
      () => (publish({ serial: 6 }), writeFileSync(at('release.yaml'), Buffer.alloc(9 << 20, '#'))),
      'larger than',
    ],
    ['no signature', () => publish({ serial: 6, by: [] }), 'no good signature'],
    ['a signature of somebody else', () => publish({ serial: 6, by: ['mallory'] }), 'not in allowed_signers'],
    [
      'no release at all, but a complete bundle',
      () => (rmSync(directory, { recursive: true }), writeBundle(directory, other)),
      'it is no release',
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
      () => publish({ serial: 6, change: (one) => ({ ...one, requires: ['mode-nftables' as 'mode-ipvs'] }) }),
      'RELEASE_INVALID',
    ],
    [
      'allowed_signers that others may write',
      () => (publish({ serial: 6 }), chmodSync(signersFile, 0o666)),
      'can be written by others',
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
  test.each(rows)('$title: refused, and the next good release is taken', async ({ attack, expected, rules }) => {
    await acceptFive();
    attack();
    expect(await said(rules)).toMatch(new RegExp(`^refused .*${expected}`));
    rmSync(signersFile, { force: true });
    allow(lineOf('alice'), lineOf('bob'));
    if (expected === 'NODE_STATE_INVALID') rmSync(join(state, 'release.json'));
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
  });

  test('freeze: an expired release is an alarm, and is taken and kept all the same', async () => {
    publish({ expires: '2026-12-01T12:00:00Z' });
    expect(await said({}, noon - 1000)).toBe('serial 5 by alice');
    expect(await said()).toBe('serial 5 by alice RELEASE_EXPIRED');
    publish({ serial: 6, expires: '2026-11-01T00:00:00Z' });
    expect(await said()).toBe('serial 6 by alice RELEASE_EXPIRED');
  });
});

describe('what was accepted once stays so', () => {
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

  test('but a changed byte is no longer what was accepted', async () => {
    await acceptFive();
    appendFileSync(at('cluster.yaml'), '# x\n');
    expect(await said()).toContain('BUNDLE_INCOMPLETE');
  });

  test('a state directory that cannot be written keeps the node where it is', async () => {
    publish();
    writeFileSync(state, 'a file in its place');
    expect(await said()).toContain('NODE_STATE_INVALID');
  });

  test('a copy elsewhere with a signature more is the same release', async () => {
    await acceptFive();
    mkdirSync(join(scratch, 'copy'), { recursive: true });
    cpSync(directory, join(scratch, 'copy'), { recursive: true });
    writeFileSync(at('SHA256SUMS.bob.sig'), signatureOf('bob', readFileSync(at('SHA256SUMS'), 'utf8')));
    expect(await said()).toBe('serial 5 by alice');
  });
});

describe('an update of endpoints', () => {
  beforeEach(async () => {
    allow(lineOf('alice'), lineOf('bob'), lineOf('ends', 'namespaces="sluice-endpoints"'));
    await acceptFive();
  });
  const update = (revision: number, more: Made = {}): void =>
    publish({ serial: 5, revision, by: ['ends'], files: other, ...more });

  test('needs one key with that role, whatever the threshold for releases, and stays what it is over restarts', async () => {
    update(1);
    expect(await said({ threshold: 2 })).toBe('serial 5.1 by ends, endpoints only');
    expect(await said({ threshold: 2 })).toBe('serial 5.1 by ends, endpoints only');
    update(2);
    expect(await said()).toBe('serial 5.2 by ends, endpoints only');
    allow(lineOf('alice'), lineOf('bob'));
    expect(await said(), 'the key was withdrawn').toBe('serial 5.2 by ends, endpoints only RELEASE_SIGNERS_CHANGED');
  });

  test('that signers of releases sign, too, is a release; one that they sign later becomes one', async () => {
    update(1, { by: ['ends', 'alice'] });
    expect(await said()).toBe('serial 5.1 by alice');
    update(2);
    expect(await said()).toBe('serial 5.2 by ends, endpoints only');
    writeFileSync(at('SHA256SUMS.alice.sig'), signatureOf('alice', readFileSync(at('SHA256SUMS'), 'utf8')));
    expect(await said()).toBe('serial 5.2 by alice');
    rmSync(at('SHA256SUMS.alice.sig'));
    expect(await said(), 'what was accepted stays so').toBe('serial 5.2 by alice RELEASE_SIGNERS_CHANGED');
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
  });

  test.each([
    ['a release', () => publish({ serial: 6, by: ['ends'] }), 'RELEASE_ENDPOINTS_ONLY .*release 6 is no update'],
    [
      'an update of a release that nobody else has signed',
      () => update(1, { serial: 6 }),
      'RELEASE_ENDPOINTS_ONLY .*6',
    ],
    ['the release again, with other content', () => publish({ by: ['ends'], files: other }), 'RELEASE_ENDPOINTS_ONLY'],
    ['an update of an older release', () => update(9, { serial: 4 }), 'RELEASE_SERIAL .*serial 4, revision 9 is older'],
    ['an older update', () => update(2), 'RELEASE_SERIAL .*serial 5, revision 2 is older than 5, revision 3'],
    ['two updates with one revision', () => update(3, { files: sampleBundle() }), 'RELEASE_EQUIVOCATION'],
    ['a revision far ahead', () => update(2_000_000), 'RELEASE_SERIAL .*more than 1000000 revisions ahead'],
    [
      'a signature for releases by such a key',
      () => {
        update(4, { by: [] });
        const sums = readFileSync(at('SHA256SUMS'), 'utf8');
        writeFileSync(at('SHA256SUMS.sig'), signatureOf('ends', sums, 'sluice-release'));
      },
      'RELEASE_UNSIGNED .*not allowed for namespace sluice-release',
    ],
    [
      'a signature for endpoints by a key of releases alone',
      () => {
        update(4, { by: [] });
        const sums = readFileSync(at('SHA256SUMS'), 'utf8');
        writeFileSync(at('SHA256SUMS.sig'), signatureOf('alice', sums, 'sluice-endpoints'));
      },
      'RELEASE_UNSIGNED',
    ],
  ])('by its key alone, %s: refused, and the next good one is taken', async (_title, attack, expected) => {
    update(3);
    await look();
    attack();
    expect(await said()).toMatch(new RegExp(`^refused ${expected}`));
    update(4);
    expect(await said()).toBe('serial 5.4 by ends, endpoints only');
  });

  test('uses up no serial: the release that it updates is taken before it and behind it, until a newer one was', async () => {
    update(1, { serial: 6 });
    expect(await said()).toContain('RELEASE_ENDPOINTS_ONLY');
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
    update(1, { serial: 6 });
    expect(await said()).toBe('serial 6.1 by ends, endpoints only');
    publish({ serial: 6 });
    expect(await said(), 'it waits here, and comes back').toBe('serial 6 by alice');
    expect(await said({}, noon, false)).toBe('serial 6 by alice');
    publish({ serial: 6, revision: 1 });
    expect(await said(), 'with other content than the update that was signed for endpoints').toBe(
      'serial 6.1 by alice',
    );
    publish({ serial: 6 });
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 6, revision 1/);
    update(1, { serial: 6 });
    expect(await said()).toMatch(/^refused RELEASE_EQUIVOCATION/);
    publish({ serial: 5 });
    expect(await said()).toMatch(/^refused RELEASE_SERIAL/);
  });

  test('is newer than every update before it, also when a release came in between', async () => {
    update(7);
    await look();
    publish({ serial: 5, revision: 3 });
    expect(await said()).toBe('serial 5.3 by alice');
    for (const revision of [2, 3, 4, 6]) {
      update(revision, { files: sampleBundle({ services: { 'shop/web': [8] } }) });
      expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 5, revision 7/);
    }
    update(7);
    expect(await said()).toBe('serial 5.7 by ends, endpoints only');
    publish({ serial: 5, revision: 2 });
    expect(await said(), 'releases count by what signers of releases signed').toMatch(/older than 5, revision 3/);
    publish({ serial: 5, revision: 9 });
    expect(await said()).toBe('serial 5.9 by alice');
    update(8);
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 5, revision 9/);
    publish({ serial: 6 });
    await look();
    update(10);
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 6/);
  });

  test('that a record of before counts as the release keeps out what is older, whoever signed it', async () => {
    update(2);
    const digest = fileDigest(readFileSync(at('SHA256SUMS'), 'utf8'));
    const record = {
      schema: 1,
      cluster: 'test',
      serial: 5,
      revision: 2,
      digest,
      signers: ['ends'],
      onlyEndpoints: true,
    };
    writeFileSync(join(state, 'release.json'), JSON.stringify(record));
    expect(await said()).toBe('serial 5.2 by ends, endpoints only');
    update(3);
    expect(await said()).toBe('serial 5.3 by ends, endpoints only');
    publish({ serial: 5, revision: 1 });
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 5, revision 2/);
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
  });

  test('on a node that has accepted nothing yet is refused', async () => {
    rmSync(state, { recursive: true });
    update(1);
    expect(await said()).toContain('RELEASE_ENDPOINTS_ONLY');
  });
});
