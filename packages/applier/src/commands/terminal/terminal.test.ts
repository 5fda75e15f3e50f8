import { chmodSync, chownSync, lchownSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { CommandError } from '../../command-error.ts';
import { type CommonOptions, loadConfig } from './terminal.ts';

/** A config file of node-a in a folder that ends with the test. */
function configFile(): string {
  const dir = mkdtempSync(join(tmpdir(), 'sluiced-config-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'sluiced.yaml');
  writeFileSync(path, 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-a\nstate: /srv/state\n');
  return path;
}

test('lets flags override the file', () => {
  const config = configFile();
  expect(loadConfig({ config })).toMatchObject({ node: 'node-a', state: '/srv/state', rehearse: 'auto' });
  const flags = { config, node: 'node-b', rehearse: false, signatures: 'none' } as const;
  expect(loadConfig(flags)).toMatchObject({
    node: 'node-b',
    state: '/srv/state',
    rehearse: 'off',
    signatures: { policy: 'none', threshold: 1 },
  });
});

test('needs no file with --node', () => {
  expect(loadConfig({ node: 'node-b' })).toMatchObject({ node: 'node-b', bundle: '/etc/sluice/rendered' });
});

const said = (options: CommonOptions): string => {
  try {
    return JSON.stringify(loadConfig(options));
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return error.problems.map(({ code, message }) => `${message} [${code}]`).join('\n');
  }
};

test.each([
  ['a name that no node has', { node: 'Node_A' }, 'Cannot use --node "Node_A": not a valid DNS subdomain'],
  ['a name that leads out of a folder', { node: '../a' }, 'Cannot use --node "../a": not a valid DNS subdomain'],
  ['an empty name', { node: '' }, 'Cannot use --node "": not a valid DNS subdomain'],
  [
    'a file that is not there',
    { config: '/nowhere/sluiced.yaml' },
    'Cannot read /nowhere/sluiced.yaml: no such file or directory',
  ],
])('%s is refused with its reason', (_title, options, reason) => {
  expect(said(options)).toMatch(/\[NODE_CONFIG_INVALID\]$/);
  expect(said(options)).toContain(reason);
});

test('refuses a bad name also with a good file', () => {
  expect(said({ config: configFile(), node: '../a' })).toContain('Cannot use --node "../a"');
});

const stranger = 4711;

// Only root can change owners.
test.skipIf(process.getuid?.() !== 0).each([
  ['that the group can write', (path: string) => chmodSync(path, 0o664), 'sluiced.yaml is writable by other users'],
  ['that all users can write', (path: string) => chmodSync(path, 0o646), 'sluiced.yaml is writable by other users'],
  [
    'in a directory that the group can write',
    (path: string) => chmodSync(dirname(path), 0o775),
    ' is writable by other users',
  ],
  [
    'in a directory that all users can write',
    (path: string) => chmodSync(dirname(path), 0o777),
    ' is writable by other',
  ],
  [
    'behind the link of another user, in a directory with the sticky bit',
    (path: string) => {
      chmodSync(dirname(path), 0o1777);
      renameSync(path, `${path}.real`);
      symlinkSync('sluiced.yaml.real', path);
      lchownSync(path, stranger, 0);
    },
    'sluiced.yaml belongs to user 4711',
  ],
  [
    'behind a link, of another user',
    (path: string) => {
      renameSync(path, `${path}.real`);
      chownSync(`${path}.real`, stranger, 0);
      symlinkSync('sluiced.yaml.real', path);
    },
    'sluiced.yaml.real belongs to user 4711',
  ],
  ['of another user', (path: string) => chownSync(path, stranger, 0), 'sluiced.yaml belongs to user 4711'],
])('refuses a config %s', (_title, spoil, reason) => {
  const config = configFile();
  spoil(config);
  expect(said({ config })).toMatch(/^Cannot trust the config: .* \[NODE_CONFIG_UNTRUSTED\]$/);
  expect(said({ config })).toContain(reason);
});

test('reads a config of root in a directory with the sticky bit, such as /run on a tmpfs', () => {
  const config = configFile();
  chmodSync(dirname(config), 0o1777);
  expect(loadConfig({ config })).toMatchObject({ node: 'node-a' });
});

test('a boot reads one that others can write, and says so', () => {
  const config = configFile();
  chmodSync(config, 0o664);
  const codes: string[] = [];
  expect(loadConfig({ config }, ({ code }) => codes.push(code))).toMatchObject({ node: 'node-a' });
  expect(codes).toEqual(['NODE_CONFIG_UNTRUSTED']);
});

test('reads a config behind a link that only root can change', () => {
  const config = configFile();
  renameSync(config, `${config}.real`);
  symlinkSync(`${config}.real`, config);
  expect(loadConfig({ config })).toMatchObject({ node: 'node-a' });
});
