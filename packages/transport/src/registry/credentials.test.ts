import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { Credentials } from '../http/client.ts';
import { credentialsFor } from './authority.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-credentials-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
beforeEach(() => {
  for (const name of ['bin', 'docker']) rmSync(at(name), { recursive: true, force: true });
  for (const name of ['bin', 'docker']) mkdirSync(at(name));
});

const registry = 'registry.example.com:5000';
const look = (config: unknown, env: NodeJS.ProcessEnv = {}): Credentials | undefined => {
  writeFileSync(at('docker/config.json'), typeof config === 'string' ? config : JSON.stringify(config));
  return credentialsFor(registry, { DOCKER_CONFIG: at('docker'), PATH: at('bin'), ...env });
};
/** A helper that records its call and prints an answer. */
function helper(name: string, answer: string, exit = 0): void {
  const file = at(`bin/docker-credential-${name}`);
  writeFileSync(
    file,
    `#!/bin/sh\n{ echo "$@"; /bin/cat; } > ${at('bin/called')}\nprintf '%s' '${answer}'\nexit ${exit}\n`,
  );
  chmodSync(file, 0o755);
}
const encoded = (text: string): string => Buffer.from(text).toString('base64');
const alice = { kind: 'password', user: 'alice', password: 'a:b c' };

describe('the docker config', () => {
  test('may contain a user and a password, with colons in the password', () => {
    expect(look({ auths: { [registry]: { auth: encoded('alice:a:b c') } } })).toEqual(alice);
  });

  test('may contain an identity token', () => {
    const entry = { auth: encoded('alice:x'), identitytoken: 't' };
    expect(look({ auths: { [registry]: entry } })).toEqual({ kind: 'token', token: 't' });
  });

  test.each([
    ['of another registry', { auths: { 'other.example.com': { auth: encoded('alice:x') } } }],
    ['that are empty', { auths: { [registry]: {} } }],
    ['of other types', { auths: { [registry]: { auth: 7 } }, credHelpers: [registry] }],
    ['at all', {}],
  ])('may contain no credentials %s', (_title, config) => {
    expect(look(config)).toBeUndefined();
  });

  test('may be missing', () => {
    expect(credentialsFor(registry, { DOCKER_CONFIG: at('nowhere') })).toBeUndefined();
  });

  test.each([
    ['is not JSON', '{'],
    ['has an auth without a colon', { auths: { [registry]: { auth: encoded('alice') } } }],
    ['names a helper by a path', { credHelpers: { [registry]: '../x' } }],
    ['names a missing helper', { credsStore: 'nowhere' }],
  ])('is a problem if it %s', (_title, config) => {
    expect(() => look(config)).toThrow(
      expect.objectContaining({ problem: expect.objectContaining({ code: 'REGISTRY_ACCESS' }) }),
    );
  });
});

describe('a credential helper', () => {
  const answer = '{"ServerURL":"x","Username":"alice","Secret":"a:b c"}';

  test('gets the registry on its standard input, before the store and the file', () => {
    helper('one', answer);
    const config = {
      credHelpers: { [registry]: 'one' },
      credsStore: 'nowhere',
      auths: { [registry]: { auth: encoded('b:c') } },
    };
    expect(look(config)).toEqual(alice);
    expect(readFileSync(at('bin/called'), 'utf8')).toBe(`get\n${registry}`);
  });

  test('may return a token', () => {
    helper('one', '{"Username":"<token>","Secret":"t"}');
    expect(look({ credsStore: 'one' })).toEqual({ kind: 'token', token: 't' });
  });

  test('without credentials falls back to the file', () => {
    helper('one', 'credentials not found in native keychain\n', 1);
    const config = { credsStore: 'one', auths: { [registry]: { auth: encoded('alice:a:b c') } } };
    expect(look(config)).toEqual(alice);
  });

  test('is not searched in the current directory', () => {
    helper('one', answer);
    const before = process.cwd();
    process.chdir(at('bin'));
    try {
      expect(() => look({ credsStore: 'one' }, { PATH: '.::bin' })).toThrow(
        'not found in an absolute directory of PATH',
      );
    } finally {
      process.chdir(before);
    }
  });

  test.each([
    ['fails', answer, 3],
    ['answers in another form', 'alice', 0],
    ['answers without a secret', '{"Username":"alice"}', 0],
    ['prints too much', 'x'.repeat(100_000), 0],
  ])('is a problem if it %s', (_title, text, exit) => {
    helper('one', text, exit);
    expect(() => look({ credsStore: 'one' })).toThrow('Cannot get credentials from ');
  });
});
