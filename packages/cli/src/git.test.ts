import { expect, test } from 'vitest';
import { remoteGit } from './git.ts';

const ssh = { file: '/usr/bin/ssh', key: '/etc/sluice/key', knownHosts: '/etc/sluice/known_hosts' };

test('a password is in the environment of one URL, and in no argument', () => {
  const header = { url: 'https://git.example.com/', line: 'Authorization: Basic c2VjcmV0' };
  const { args, env, extendEnv } = remoteGit('/srv/git', ['fetch'], { protocol: 'https', header });
  expect(args.join(' ')).not.toContain('c2VjcmV0');
  expect(env).toMatchObject({
    GIT_CONFIG_KEY_0: 'http.https://git.example.com/.extraHeader',
    GIT_CONFIG_VALUE_0: 'Authorization: Basic c2VjcmV0',
    GIT_ALLOW_PROTOCOL: 'https',
    GIT_TERMINAL_PROMPT: '0',
  });
  expect(extendEnv).toBe(false);
  expect(args).toContain('http.followRedirects=false');
});

test('ssh asks nothing, knows the host, and takes the key of the config alone', () => {
  const { args, env } = remoteGit('/srv/git', ['fetch'], { protocol: 'ssh', ssh });
  expect(args).toContain(
    'core.sshCommand=/usr/bin/ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/etc/sluice/known_hosts -o IdentitiesOnly=yes -o IdentityFile=/etc/sluice/key',
  );
  expect(env['GIT_ALLOW_PROTOCOL']).toBe('ssh');
});

test.each(['/etc/a b', '/etc/$(id)', "/etc/'", '/etc/;id'])('a shell gets no path like %s', (key) => {
  expect(() => remoteGit('/srv/git', [], { protocol: 'ssh', ssh: { ...ssh, key } })).toThrow(
    'cannot be an argument of ssh',
  );
});
