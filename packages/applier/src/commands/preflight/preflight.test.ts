import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeKey, signBy } from '@sluice/testing';
import { makeRelease, printRelease, sumsOf } from '@sluice/bundle';
import { afterAll, expect, test } from 'vitest';
import { opensshFinding } from '../../diagnose/preflight/preflight.ts';
import { sampleBundle, sampleNode } from '../../testing/bundle.fixture.ts';
import { keyFile } from '../../observe/receipts/key.ts';
import { lookAt } from '../session/gate.ts';
import { printFinding, printFindings, receiptFinding, releaseFindings } from './preflight.ts';
import { loadConfig } from '../terminal/terminal.ts';

const sluiced = join(import.meta.dirname, '../../../../../bin/sluiced');
const scratch = mkdtempSync(join(tmpdir(), 'sluiced-preflight-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
writeFileSync(at('allowed_signers'), `alice namespaces="sluice-release" ${makeKey(at('alice'))}\n`, { mode: 0o644 });
const head = 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n';
writeFileSync(
  at('sluiced.yaml'),
  `${head}node: ${sampleNode}\nstate: ${at('state')}\nsignatures: { allowedSigners: ${at('allowed_signers')} }\n`,
);

function release(change: (text: string) => string = (text) => text): void {
  const files = sampleBundle();
  const made = makeRelease(files, { serial: 7, source: 'c'.repeat(40), expires: '2020-01-01T00:00:00Z' });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  const text = change(printRelease(made));
  const sums = sumsOf(files, text);
  const signature = signBy(at('alice'), 'sluice-release', sums);
  rmSync(at('release'), { recursive: true, force: true });
  const all = new Map([...files, ['release.yaml', text], ['SHA256SUMS', sums], ['SHA256SUMS.sig', signature]]);
  for (const [path, content] of all) {
    mkdirSync(dirname(at(`release/${path}`)), { recursive: true });
    writeFileSync(at(`release/${path}`), content);
  }
}

/** What preflight says of the release, but for what it sees of the machine, which is tested where there are tools: test/netns. */
async function look(): Promise<string> {
  const config = { ...loadConfig({ config: at('sluiced.yaml') }), bundle: at('release') };
  const arrival = await lookAt(config, true);
  if (arrival.kind !== 'refused') return releaseFindings(arrival).map(printFinding).join('\n');
  return arrival.problems.map(({ code, message }) => `${code} ${message}`).join('\n');
}

test('reports the release and its alarms, and accepts nothing', async () => {
  release();
  const said = await look();
  expect(said).toMatch(
    /^ok {4}release \(serial 7, signed by alice, read by sluiced \d+\.\d+\.\d+-dev\): nothing to do$/m,
  );
  expect(said).toMatch(/^note {2}release \(Release 7 expired at /m);
  expect(() => readFileSync(at('state/release.json'))).toThrow('ENOENT');
});

test.each([
  ['no signature', () => (release(), rmSync(at('release/SHA256SUMS.sig'))), 'RELEASE_UNSIGNED'],
  [
    'requires what this version does not know',
    () => release((text) => text.replace('[mode-iptables]', '[mode-iptables, mode-x]')),
    'RELEASE_INVALID Cannot read the release: it requires mode-x',
  ],
])('fails for a release that %s', async (_title, prepare, says) => {
  prepare();
  expect(await look()).toContain(says);
});

test('notes that a node without a key cannot report results', () => {
  const config = { state: at('silent') };
  expect(printFinding(receiptFinding(config))).toMatch(
    /^note {2}receipts \(this node has no key\): run `sluiced keygen`/,
  );
  mkdirSync(config.state);
  writeFileSync(keyFile(config.state), '');
  expect(printFinding(receiptFinding(config))).toBe('ok    receipts (this node has a key): nothing to do');
});

test.each([
  ['OpenSSH_8.9p1 Ubuntu-3ubuntu0.10, OpenSSL 3.0.2 15 Mar 2022\n', 'note  OpenSSH (8.9): remove valid-after'],
  ['OpenSSH_9.0p1, OpenSSL\n', 'note  OpenSSH (9.0): '],
  ['OpenSSH_9.1p1, OpenSSL\n', 'ok    OpenSSH (9.1): nothing to do'],
  ['OpenSSH_10.0p2 Debian-7, OpenSSL 3.5.1 1 Jul 2025\n', 'ok    OpenSSH (10.0): nothing to do'],
  ['Sun_SSH_2.2\n', ''],
])('tells whether %s accepts keys with times', (said, expected) => {
  const finding = opensshFinding(said);
  expect(finding ? printFinding(finding) : '').toContain(expected);
});

test('prints problems first, each cause once, and counts passed checks', () => {
  const finding = (level: 'good' | 'note' | 'bad', what: string) => ({
    level,
    what: `${what} (seen)`,
    todo: 'do this',
  });
  const all = [
    finding('good', 'a'),
    finding('note', 'b'),
    finding('bad', 'c'),
    finding('bad', 'c'),
    finding('good', 'd'),
  ];
  expect(printFindings(all, false)).toEqual([
    'FAIL  c (seen): do this',
    'note  b (seen): do this',
    'ok    2 more: nothing to do (--verbose lists them)',
  ]);
  expect(printFindings(all, true)).toEqual([
    'FAIL  c (seen): do this',
    'note  b (seen): do this',
    'ok    a (seen): do this',
    'ok    d (seen): do this',
  ]);
});

test.skipIf(process.getuid?.() !== 0)(
  'a user who is not root is told so, and not to install tools (needs root)',
  () => {
    const said = spawnSync(
      'setpriv',
      ['--reuid=65534', '--regid=65534', '--clear-groups', sluiced, 'preflight', '--node', 'node-a'],
      { encoding: 'utf8' },
    );
    expect(said.status).toBe(3);
    expect(said.stdout).toMatch(/^FAIL {2}rights \(not running as root\): run it as root/);
    expect(said.stdout).not.toContain('install iptables');
  },
);
