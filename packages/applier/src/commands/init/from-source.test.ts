import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CommandError } from '../../command-error.ts';
import { readConfig } from '../../config.ts';
import { init } from './init.ts';

/** `sluiced init --source`: a machine of its own, on which an archive with units was unpacked in /opt. */

let dir: string;
const at = (path: string): string => join(dir, path);
const config = (): string => at('etc/sluice/sluiced.yaml');
const signers = (): string => at('etc/sluice/allowed_signers');
const key = 'AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';
const line = (principal: string, namespaces: string, last = 'A'): string =>
  `${principal} namespaces="${namespaces}" ssh-ed25519 ${key.slice(0, -4)}${last}AAA\n`;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluiced-init-'));
  for (const folder of ['etc/sluice', 'etc/systemd/system', 'run/systemd/system', 'opt/usr/lib/systemd/system'])
    mkdirSync(at(folder), { recursive: true });
  writeFileSync(at('opt/usr/lib/systemd/system/sluiced.service'), 'ExecStart=/usr/bin/sluiced run\n');
  writeFileSync(at('opt/usr/lib/systemd/system/sluiced-fetch.service'), 'ExecStart=/usr/bin/sluiced fetch\n');
  writeFileSync(at('opt/usr/lib/systemd/system/other.service'), 'ExecStart=/usr/bin/other\n');
  writeFileSync(
    at('keys'),
    `# signers\n${line('alice@example.com', 'sluice-release')}${line('waves', 'sluice-wave', 'B')}`,
  );
});
afterEach(() => rmSync(dir, { recursive: true }));

const oci = 'oci://registry.example.com/sluice/shop:production';

type Options = Parameters<typeof init>[1];
const run = (options: Options, file = config()): Promise<string> => attempt({ keys: at('keys'), ...options }, file);

/** What it prints, or each problem with its code. */
async function attempt(options: Options, file = config()): Promise<string> {
  let printed = '';
  const terminal = { out: (text: string) => void (printed += text), err() {} };
  const noTools = async () => ({ exitCode: 1, stdout: '', stderr: '', why: 'refused' }) as const;
  try {
    await init(file, { node: 'node-a', source: oci, ...options }, terminal, {
      run: noTools,
      bin: at('opt/usr/bin'),
      root: dir,
    });
    return printed;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return error.problems.map(({ message, code }) => `${message} [${code}]\n`).join('');
  }
}

const unit = (name: string): string => at(`etc/systemd/system/${name}`);

test('writes config, keys and the units that systemd lacks, and says what to do next', async () => {
  writeFileSync(unit('sluiced.service'), 'mine\n');
  const printed = await run({});
  expect(printed).toContain(
    `Wrote ${signers()}\nWrote ${unit('sluiced-fetch.service')}\nWrote ${config()}\nReleases are accepted from: alice@example.com\n`,
  );
  expect(printed).toContain('sluiced fetch');
  expect(printed).toContain('systemctl enable --now sluiced-fetch');
  expect(readFileSync(signers(), 'utf8')).toBe(readFileSync(at('keys'), 'utf8'));
  expect(readFileSync(unit('sluiced-fetch.service'), 'utf8')).toBe(`ExecStart=${at('opt/usr/bin/sluiced')} fetch\n`);
  expect(readFileSync(unit('sluiced.service'), 'utf8')).toBe('mine\n');
  expect(existsSync(unit('other.service'))).toBe(false);
  expect(statSync(signers()).mode & 0o777).toBe(0o644 & ~process.umask());
  expect(readConfig('-', readFileSync(config(), 'utf8'))).toMatchObject({
    node: 'node-a',
    source: { oci: { reference: 'registry.example.com/sluice/shop:production' } },
    signatures: { policy: 'required', allowedSigners: signers() },
  });
});

test('writes no unit where systemd does not run', async () => {
  rmSync(at('run'), { recursive: true });
  await run({});
  expect(existsSync(unit('sluiced.service'))).toBe(false);
});

test.each([
  ['https://cdn.example.com/sluice#live', { https: { url: 'https://cdn.example.com/sluice', tag: 'live' } }],
  [
    'git+ssh://git@git.example.com/shop.git#main:rendered',
    { git: { url: 'ssh://git@git.example.com/shop.git', branch: 'main', path: 'rendered' } },
  ],
  ['git+https://git.example.com/shop.git', { git: { url: 'https://git.example.com/shop.git', branch: 'main' } }],
  ['dir:/media/stick', { dir: { path: '/media/stick' } }],
])('%s becomes a source with its credentials and authority', async (source, expected) => {
  await run({ source, ca: '/etc/sluice/ca.pem', credentials: '/etc/sluice/source token' });
  const credentials = { file: '/etc/sluice/source token' };
  expect(readConfig('-', readFileSync(config(), 'utf8'))).toMatchObject({
    source: { ...expected, credentials, caFile: '/etc/sluice/ca.pem' },
  });
});

test('receipts go to a store of their own, by the same authority', async () => {
  await run({ receipts: 'oci://registry.example.com/sluice/shop', ca: '/etc/sluice/ca.pem' });
  expect(readConfig('-', readFileSync(config(), 'utf8'))).toMatchObject({
    source: { oci: {}, caFile: '/etc/sluice/ca.pem' },
    receipts: { push: { oci: { reference: 'registry.example.com/sluice/shop' }, caFile: '/etc/sluice/ca.pem' } },
  });
  expect(await run({ receipts: 'oci://registry.example.com/sluice/shop:1', force: true })).toContain(
    'not of the form REGISTRY/REPOSITORY [NODE_CONFIG_INVALID]',
  );
});

test('keeps every existing file unless --force is given, and a file with the same text always', async () => {
  writeFileSync(signers(), 'older\n');
  writeFileSync(config(), 'older\n');
  expect(await run({})).toBe(
    `Cannot write ${signers()}: it already exists [OUTPUT_UNWRITABLE]\nCannot write ${config()}: it already exists [OUTPUT_UNWRITABLE]\n`,
  );
  expect(existsSync(unit('sluiced.service'))).toBe(false);
  expect(await run({ force: true })).toContain(`Wrote ${config()}\n`);
  const again = await run({});
  expect(again).not.toContain('Wrote');
  expect(again).toContain('systemctl enable');
});

test('prints the config and writes nothing for -', async () => {
  const printed = await run({}, '-');
  expect(readConfig('-', printed)).toMatchObject({ source: { oci: {} } });
  expect(existsSync(signers())).toBe(false);
  expect(existsSync(unit('sluiced.service'))).toBe(false);
});

test.each<[title: string, prepare: () => string, says: string]>([
  ['keys for another purpose', () => line('waves', 'sluice-wave'), 'none of its 1 keys may sign releases'],
  ['keys without a purpose', () => `alice@example.com ssh-ed25519 ${key}\n`, 'it has no namespaces'],
  ['a key for every purpose', () => line('alice@example.com', '*'), '"*" is not a namespace'],
  ['every principal', () => line('*', 'sluice-release'), '"*" is not one principal'],
  [
    'an authority of certificates',
    () => `a cert-authority,namespaces="x" ssh-ed25519 ${key}\n`,
    'is not allowed as an option',
  ],
  ['no key', () => '# none\n', 'none of its 0 keys may sign releases'],
  ['too much', () => '#'.repeat(1_000_000), 'larger than'],
])('refuses %s, and writes nothing', async (_title, prepare, says) => {
  writeFileSync(at('keys'), prepare());
  const printed = await run({});
  expect(printed).toContain(says);
  expect(printed).toContain('[SIGNERS_INVALID]');
  expect(existsSync(config())).toBe(false);
});

test('refuses a private key without printing it', async () => {
  rmSync(at('keys'));
  makeKey(at('keys'));
  expect(await run({})).toBe(`Cannot use the keys in ${at('keys')}: it has a private key [SIGNERS_INVALID]\n`);
});

test.each<[title: string, prepare: (path: string) => void]>([
  ['a pipe', (path) => execFileSync('mkfifo', [path])],
  ['a folder', (path) => mkdirSync(path)],
  ['nothing', () => {}],
])('refuses %s in the place of the keys', async (_title, prepare) => {
  rmSync(at('keys'));
  prepare(at('keys'));
  expect(await run({})).toMatch(/^Cannot use the keys in .*\[SIGNERS_INVALID\]\n$/);
});

test('needs keys, or those that are there', async () => {
  expect(await attempt({})).toBe(`Cannot use a source without keys: ${signers()} is missing [NODE_CONFIG_INVALID]\n`);
  writeFileSync(signers(), readFileSync(at('keys')));
  expect(await attempt({})).toContain(`Wrote ${config()}\n`);
});

test.each([
  ['a reference without a tag', 'oci://registry.example.com/sluice/shop', 'reference'],
  ['plain HTTP to another machine', 'https://x\nhttp://cdn.example.com/sluice', 'not the form of a source'],
  ['plain HTTP', 'http://cdn.example.com/sluice', 'url'],
  ['a branch that git reads as an option', 'git+https://git.example.com/shop.git#--upload-pack=id', 'branch'],
  ['a path out of the repository', 'git+https://git.example.com/shop.git#main:../etc', 'path'],
  ['a text that ends the value', 'oci://x.example.com/a:1" }\nbundleOwner: 1000\n# {"', 'not the form of a source'],
])('refuses %s, and writes nothing', async (_title, source, says) => {
  const printed = await run({ source });
  expect(printed).toContain(says);
  expect(printed).toContain('[NODE_CONFIG_INVALID]');
  expect(existsSync(config())).toBe(false);
});
