import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CommandError } from '../../command-error.ts';
import { readConfig } from '../../config.ts';
import type { Run } from '../../kernel/command.ts';
import { init } from './init.ts';
import { configText, type NodeFindings } from './text.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluiced-init-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

/** A machine on which no tool runs. */
const noTools: Run = async () => ({ exitCode: 1, stdout: '', stderr: '', why: 'refused' });

async function answered(file: string, options: Parameters<typeof init>[1] = {}): Promise<string> {
  let printed = '';
  const terminal = { out: (text: string) => void (printed += text), err() {} };
  try {
    await init(file, { node: 'node-a', ...options }, terminal, { run: noTools, bin: join(dir, 'usr/bin'), root: dir });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const [{ code, message } = { code: '', message: '' }] = error.problems;
    return `${message} [${code}]`;
  }
  return printed;
}

test('writes a config that all can read and root alone can write, and nothing beside it', async () => {
  const file = join(dir, 'sluiced.yaml');
  expect(await answered(file)).toContain(`Wrote ${file}`);
  expect(statSync(file).mode & 0o777).toBe(0o644 & ~process.umask());
  expect(readdirSync(dir)).toEqual(['sluiced.yaml']);
  expect(readConfig(file, readFileSync(file, 'utf8'))).toMatchObject({ node: 'node-a', backend: 'auto' });
});

test('keeps an existing file unless it is told to overwrite it', async () => {
  const file = join(dir, 'sluiced.yaml');
  await answered(file);
  const before = readFileSync(file, 'utf8');
  expect(await answered(file, { node: 'node-b' })).toBe(`Cannot write ${file}: it already exists [OUTPUT_UNWRITABLE]`);
  expect(readFileSync(file, 'utf8')).toBe(before);
  await answered(file, { node: 'node-b', force: true });
  expect(readFileSync(file, 'utf8')).toBe(before.replace('"node-a"', '"node-b"'));
  expect(readdirSync(dir)).toEqual(['sluiced.yaml']);
});

test('prints the config, or what it found as a document, and writes nothing', async () => {
  const text = await answered('-');
  expect(readConfig('-', text)).toMatchObject({ node: 'node-a' });
  expect(JSON.parse(await answered('-', { output: 'json' }))).toMatchObject({
    kind: 'InitResult',
    file: null,
    node: 'node-a',
    config: text,
  });
});

test.each([
  ['a name that no node has', '-', 'Node_A', 'Cannot use the node name "Node_A": not a valid DNS subdomain'],
  ['a folder that is not there', '/nowhere/sluiced.yaml', 'node-a', 'Cannot write /nowhere/sluiced.yaml: no such file'],
])('refuses %s', async (_title, file, node, reason) => {
  expect(await answered(file, { node })).toContain(reason);
});

const full: NodeFindings = {
  node: 'on',
  backend: 'nft',
  iptables: '1.8.9',
  tools: ['ipset'],
  missing: ['ipvsadm'],
  kubeProxy: ['process 7'],
  bundle: '/var/lib/sluice-watch/rendered',
  bundleOwner: 65_532,
  signers: '/etc/sluice/allowed_signers',
  hasSigners: false,
};

test('grants nothing that it found', () => {
  const text = configText(full);
  // The name is a text in YAML 1.1, too.
  expect(text).toContain('\nnode: "on"\n');
  expect(text).toContain('\n# bundleOwner: 65532\n');
  expect(text).toContain('kube-proxy runs here (process 7)');
  expect(readConfig('-', text)).toMatchObject({ bundle: full.bundle, signatures: { policy: 'required' } });
  expect(readConfig('-', text)).not.toHaveProperty('bundleOwner');
});
