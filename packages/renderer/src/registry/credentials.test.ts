import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { type Credentials, credentialsFor } from './credentials.ts';

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
/** A helper that writes down how it was called, and answers. */
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
  test('has a name and a password, of which the password may have colons', () => {
    expect(look({ auths: { [registry]: { auth: encoded('alice:a:b c') } } })).toEqual(alice);
  });

  test('has a token that is changed for others', () => {
    const entry = { auth: encoded('alice:x'), identitytoken: 't' };
    expect(look({ auths: { [registry]: entry } })).toEqual({ kind: 'token', token: 't' });
  });

  test.each([
    ['of another registry', { auths: { 'other.example.com': { auth: encoded('alice:x') } } }],
    ['that are empty', { auths: { [registry]: {} } }],
    ['of other types', { auths: { [registry]: { auth: 7 } }, credHelpers: [registry] }],
    ['at all', {}],
  ])('has no credentials %s', (_title, config) => {
    expect(look(config)).toBeUndefined();
  });

  test('need not be there', () => {
    expect(credentialsFor(registry, { DOCKER_CONFIG: at('nowhere') })).toBeUndefined();
  });

  test.each([
    ['is no JSON', '{'],
    ['has an auth without a colon', { auths: { [registry]: { auth: encoded('alice') } } }],
    ['names a helper by a path', { credHelpers: { [registry]: '../x' } }],
    ['names a helper that is not there', { credsStore: 'nowhere' }],
  ])('that %s is a problem', (_title, config) => {
    expect(() => look(config)).toThrow(
      expect.objectContaining({ problem: expect.objectContaining({ code: 'REGISTRY_ACCESS' }) }),
    );
  });
});

describe('a credential helper', () => {
  const answer = '{"ServerURL":"x","Username":"alice","Secret":"a:b c"}';

  test('is asked for the registry on its standard input, before the store and the file', () => {
    helper('one', answer);
    const config = {
      credHelpers: { [registry]: 'one' },
      credsStore: 'nowhere',
      auths: { [registry]: { auth: encoded('b:c') } },
    };
    expect(look(config)).toEqual(alice);
    expect(readFileSync(at('bin/called'), 'utf8')).toBe(`get\n${registry}`);
  });

  test('may have a token', () => {
    helper('one', '{"Username":"<token>","Secret":"t"}');
    expect(look({ credsStore: 'one' })).toEqual({ kind: 'token', token: 't' });
  });

  test('that has no credentials leaves it to the file', () => {
    helper('one', 'credentials not found in native keychain\n', 1);
    const config = { credsStore: 'one', auths: { [registry]: { auth: encoded('alice:a:b c') } } };
    expect(look(config)).toEqual(alice);
  });

  test('is not looked for in the current directory', () => {
    helper('one', answer);
    const before = process.cwd();
    process.chdir(at('bin'));
    try {
      expect(() => look({ credsStore: 'one' }, { PATH: '.::bin' })).toThrow('in no absolute folder of PATH');
    } finally {
      process.chdir(before);
    }
  });

  test.each([
    ['fails', answer, 3],
    ['answers in another form', 'alice', 0],
    ['answers without a secret', '{"Username":"alice"}', 0],
    ['does not stop talking', 'x'.repeat(100_000), 0],
  ])('that %s is a problem', (_title, text, exit) => {
    helper('one', text, exit);
    expect(() => look({ credsStore: 'one' })).toThrow('Cannot ask ');
  });
});
