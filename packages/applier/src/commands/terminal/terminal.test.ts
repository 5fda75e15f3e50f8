import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
  ['a file that is not there', { config: '/nowhere/sluiced.yaml' }, 'Cannot read /nowhere/sluiced.yaml: ENOENT'],
])('%s is refused with its reason', (_title, options, reason) => {
  expect(said(options)).toMatch(/\[NODE_CONFIG_INVALID\]$/);
  expect(said(options)).toContain(reason);
});

test('refuses a bad name also with a good file', () => {
  expect(said({ config: configFile(), node: '../a' })).toContain('Cannot use --node "../a"');
});
