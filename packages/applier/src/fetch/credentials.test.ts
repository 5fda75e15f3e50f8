import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { CredentialsConfig } from '../config-source.ts';
import { runChildren } from '../kernel/run.ts';
import { authorization } from '@sluice/transport/http/client.ts';
import { readCredentials } from './credentials.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-credentials-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
mkdirSync(at('systemd'));
writeFileSync(at('systemd/registry'), 'alice:a:b\n');
writeFileSync(at('token'), 'abc.def\n');
writeFileSync(at('open'), 'alice:x\n');
chmodSync(at('open'), 0o666);
writeFileSync(at('lines'), 'a:b\r\nInjected: yes\n');
writeFileSync(at('helper'), '#!/bin/sh\necho "$1:$HOME$LD_PRELOAD"s3cret\n', { mode: 0o755 });
writeFileSync(at('fails'), '#!/bin/sh\necho no >&2\nexit 3\n', { mode: 0o755 });

const read = async (given: CredentialsConfig | undefined, environment = {}): Promise<string | undefined> => {
  const credentials = await readCredentials(given, { environment, run: runChildren() });
  return credentials && authorization(credentials);
};
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

test.each([
  ['none', undefined, undefined],
  ['a token in a file', { file: at('token') }, 'Bearer abc.def'],
  ['a password with a colon, from systemd', { systemd: 'registry' }, basic('alice:a:b')],
  ['the output of a program, without the environment', { exec: [at('helper'), 'bob'] }, basic('bob:s3cret')],
] as [string, CredentialsConfig | undefined, string | undefined][])('%s', async (_title, given, header) => {
  expect(await read(given, { CREDENTIALS_DIRECTORY: at('systemd') })).toBe(header);
});

test.each([
  ['a missing file', { file: at('none') }, 'no such file'],
  ['a file that other users can write', { file: at('open') }, 'writable by other users'],
  ['two lines, which would be a header of their own', { file: at('lines') }, 'not one line'],
  ['a credential without systemd', { systemd: 'registry' }, 'systemd gave this process no credentials'],
  ['a program that fails', { exec: [at('fails')] }, 'exit code 3: "no"'],
  ['a program that is missing', { exec: [at('nothing')] }, 'Cannot use'],
] as [string, CredentialsConfig, string][])('refuses %s', async (_title, given, why) => {
  await expect(read(given)).rejects.toThrow(why);
});
