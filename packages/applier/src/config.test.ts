import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { defaultConfig, readConfig } from './config.ts';

const head = 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n';

test('docs/sluiced.yaml is accepted, and shows the defaults', () => {
  const text = readFileSync(new URL('../../../docs/sluiced.yaml', import.meta.url), 'utf8');
  const config = readConfig('sluiced.yaml', text);
  const { probes, ...rest } = config as ReturnType<typeof defaultConfig>;
  const { probes: _none, ...defaults } = defaultConfig('node-a');
  expect(rest).toEqual(defaults);
  expect(probes.map(({ name }) => name)).toEqual(['web', 'dns', 'registry', 'api']);
});

test.each([
  ['takeOver: kube-proxy', ['kube-proxy']],
  ['takeOver: [order, kube-proxy]', ['order', 'kube-proxy']],
  ['', []],
])('accepts takeOver: %s', (line, taken) => {
  expect(readConfig('sluiced.yaml', `${head}node: a\n${line}\n`)).toMatchObject({ takeOver: taken });
});

test.each([
  [
    'a field of an object',
    'node: a\nprobation: {second: 3}\n',
    '4:',
    'unknown field probation.second',
    'Did you mean seconds?',
  ],
  [
    'a field of a probe',
    'node: a\nprobes: [{name: x, attempt: 3, tcp: "10.96.0.1:80"}]\n',
    '4:29',
    'unknown field probes.0.attempt',
    'Did you mean attempts?',
  ],
  ['a missing field', 'node: a\nprobes: [{tcp: "10.96.0.1:80"}]\n', '4:10', 'probes.0.name is missing', 'every field'],
  [
    'an unknown field',
    'node: a\nallowpartial: true\n',
    '4:',
    'unknown field allowpartial',
    'Did you mean allowPartial?',
  ],
  [
    'a policy that is none of the two',
    'node: a\nsignatures: {policy: off}\n',
    '4:22',
    'signatures.policy',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a threshold of zero',
    'node: a\nsignatures: {threshold: 0}\n',
    '4:25',
    'signatures.threshold',
    '/usr/share/sluice/sluiced.yaml',
  ],
  ['a missing node', 'listen: 127.0.0.1:1\n', '1:', 'node', '/usr/share/sluice/sluiced.yaml'],
  [
    'a relative path',
    'node: a\nbundle: rendered\n',
    '4:9',
    'bundle: not an absolute path',
    '/usr/share/sluice/sluiced.yaml',
  ],
  ['an unknown value of takeOver', 'node: a\ntakeOver: calico\n', '4:11', 'takeOver', '/usr/share/sluice/sluiced.yaml'],
  ['an unknown backend', 'node: a\nbackend: ipvs\n', '4:10', 'backend', '/usr/share/sluice/sluiced.yaml'],
  [
    'a listen address with a name',
    'node: a\nlisten: localhost:1\n',
    '4:9',
    'address:port',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a probe of two kinds',
    'node: a\nprobes: [{name: x, tcp: "10.0.0.1:80", http: "http://a"}]\n',
    '4:',
    'probes.0',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a probe without a path for its command',
    'node: a\nprobes: [{name: x, exec: [curl]}]\n',
    '4:',
    'not an absolute path',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a probe of a Service without a namespace',
    'node: a\nprobes: [{name: x, service: cart, tcp: "10.0.0.1:80"}]\n',
    '4:29',
    'probes.0.service: not the name of a Service: NAMESPACE/NAME',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'two probes of one name',
    'node: a\nprobes: [{name: x, tcp: "10.0.0.1:80"}, {name: x, tcp: "10.0.0.2:80"}]\n',
    '4:',
    'another probe',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a drain of more than a day',
    'node: a\nipvs: {drainSeconds: 86401}\n',
    '4:22',
    'drainSeconds',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a probe that could never fail',
    'node: a\nprobes: [{name: x, tcp: "10.0.0.1:80", attempts: 2, failures: 3}]\n',
    '4:',
    'could never fail',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a port that is none',
    'node: a\nprobes: [{name: x, tcp: "10.96.0.77:70000"}]\n',
    '4:25',
    'probes.0.tcp: not of the form address:port (IPv6 in brackets), with a port from 1 to 65535',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'port 0 of a name server',
    'node: a\nprobes: [{name: x, dns: "10.96.0.53:0", query: a.b}]\n',
    '4:25',
    'probes.0.dns: not of the form address:port',
    '/usr/share/sluice/sluiced.yaml',
  ],
  [
    'a listen port that is none',
    'node: a\nlisten: 127.0.0.1:65536\n',
    '4:9',
    'from 0 to 65535',
    '/usr/share/sluice/sluiced.yaml',
  ],
  ...['http://10.96.0.10:99999/x', 'http://[::1/', 'http://10.96.0.10:0/', 'ftp://10.96.0.10/'].map((url) => [
    `the URL ${url}`,
    `node: a\nprobes: [{name: x, http: "${url}"}]\n`,
    '4:26',
    'probes.0.http: not a valid http URL',
    '/usr/share/sluice/sluiced.yaml',
  ]),
  [
    'a name that is none',
    'node: a\nprobes: [{name: x, dns: "10.0.0.1:53", query: "a..b"}]\n',
    '4:',
    'not a valid DNS name',
    '/usr/share/sluice/sluiced.yaml',
  ],
  ['an alias', 'node: *a\n', '1:1', 'aliases', '/usr/share/sluice/sluiced.yaml'],
  ['a duplicate key', 'node: a\nnode: b\n', '4:1', 'unique', '/usr/share/sluice/sluiced.yaml'],
])('%s is a problem with its place', (_title, text, at, message, hint) => {
  const read = readConfig('sluiced.yaml', head + text);
  const problem = 'problems' in read ? read.problems[0] : undefined;
  expect(problem).toMatchObject({
    code: 'NODE_CONFIG_INVALID',
    message: expect.stringContaining(message),
    hint: expect.stringContaining(hint),
  });
  expect(`${problem?.at?.line}:${problem?.at?.column}`).toMatch(new RegExp(`^${at}`));
});

test('reports every problem of the probes', () => {
  const one = '{name: x, tcp: "10.0.0.1:80", attempts: 2, failures: 3}';
  expect(readConfig('sluiced.yaml', `${head}node: a\nprobes:\n- ${one}\n- ${one}\n`)).toMatchObject({
    problems: [5, 6, 6].map((line) => ({ code: 'NODE_CONFIG_INVALID', at: { line } })),
  });
});

test.each([
  ['true', 'auto'],
  ['false', 'off'],
  ['namespace', 'namespace'],
])('reads rehearse: %s of any version as %s', (said, means) => {
  expect(readConfig('sluiced.yaml', `${head}node: a\nrehearse: ${said}\n`)).toMatchObject({ rehearse: means });
});

test.each(['1', 'yes', 'null', '[auto]'])('rehearse: %s is a problem with its place', (said) => {
  expect(readConfig('sluiced.yaml', `${head}node: a\nrehearse: ${said}\n`)).toMatchObject({
    problems: [{ at: { line: 4, column: 11 }, message: expect.stringContaining('rehearse: ') }],
  });
});

test.each([
  ['bundle: /srv//rendered/', { bundle: '/srv/rendered' }],
  ['state: /srv/./state/.', { state: '/srv/state' }],
  ['signatures: {allowedSigners: /srv/x/../signers}', { signatures: { allowedSigners: '/srv/signers' } }],
  ['receipts: {directory: //receipts/}', { receipts: { directory: '/receipts' } }],
  ['probes: [{name: x, exec: [/bin//sh, ./as/it/is/]}]', { probes: [{ exec: ['/bin/sh', './as/it/is/'] }] }],
])('normalises the path in %s', (text, expected) => {
  expect(readConfig('sluiced.yaml', `${head}node: a\n${text}\n`)).toMatchObject(expected);
});

test('requires signatures by default', () => {
  expect(defaultConfig('node-a').signatures).toEqual({
    policy: 'required',
    allowedSigners: '/etc/sluice/allowed_signers',
    threshold: 1,
    floor: 0,
  });
});

describe('source', () => {
  const source = (lines: string, top = ''): string => `node: node-a\n${top}source:\n${lines}`;
  const oci = '  oci: { reference: "registry.example.com/sluice/shop:production" }\n';
  const saidBy = (text: string): string => {
    const config = readConfig('sluiced.yaml', `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n${text}`);
    return 'problems' in config ? config.problems.map(({ message }) => message).join('; ') : `ok ${config.bundle}`;
  };

  test.each([
    ['a tag', oci],
    ['a digest', `  oci: { reference: "registry.example.com/shop@sha256:${'a'.repeat(64)}" }\n`],
    ['a web server', '  https: { url: https://cdn.example.com/sluice }\n'],
    ['a web server of this machine', '  https: { url: http://127.0.0.1:8080/sluice }\n'],
    [
      'git over https',
      '  git: { url: https://git.example.com/ops/rules.git, branch: release/1, path: out/rendered }\n',
    ],
    ['git over ssh', '  git: { url: ssh://git@git.example.com/rules.git }\n  credentials: { file: /etc/sluice/key }\n'],
    ['a directory', '  dir: { path: /media/stick }\n'],
  ])('%s is read, and the bundle directory is the release that is fetched', (_title, lines) => {
    expect(saidBy(source(lines))).toBe('ok /var/lib/sluice-fetch/release');
    expect(saidBy(source(`${lines}  directory: /srv/f/\n`))).toBe('ok /srv/f/release');
  });

  test.each([
    ['no kind', '  intervalSeconds: 5\n', 'needs exactly one of oci, https, git, dir'],
    ['two kinds', `${oci}  dir: { path: /media }\n`, 'needs exactly one of'],
    ['a reference without tag', '  oci: { reference: registry.example.com/shop }\n', 'not of the form'],
    ['plain HTTP to another machine', '  https: { url: http://cdn.example.com/ }\n', 'not a URL of https://'],
    ['a file', '  https: { url: "file:///etc" }\n', 'not a URL of https://'],
    ['a password in the URL', '  https: { url: "https://a:b@cdn.example.com/" }\n', 'not a URL of https://'],
    ['a program as a transport of git', '  git: { url: "ext::sh -c id" }\n', 'not a URL of https:// or ssh://'],
    [
      'a branch that is an option',
      '  git: { url: https://a.b/, branch: --upload-pack=x }\n',
      'not the name of a branch',
    ],
    ['a path above the repository', '  git: { url: https://a.b/, path: a/../.. }\n', 'not a path below'],
    ['a shell in the path of a key', '  git: { url: ssh://a.b/, knownHosts: "/a;id" }\n', 'letters, digits'],
    ['a program for a key', '  git: { url: ssh://a.b/ }\n  credentials: { exec: [/bin/x] }\n', 'ssh takes its key'],
    ['a relative helper', `${oci}  credentials: { exec: [x] }\n`, 'not an absolute path'],
    ['an interval of 0', `${oci}  intervalSeconds: 0\n`, 'intervalSeconds'],
  ])('%s is refused', (_title, lines, why) => {
    expect(saidBy(source(lines))).toContain(why);
  });

  test.each([
    ['a registry', 'oci: { reference: registry.example.com/sluice/shop }', /^ok /],
    ['a web server', 'https: { url: https://receipts.example.com/shop }, intervalSeconds: 5', /^ok /],
    ['git', 'git: { url: ssh://git@git.example.com/rules.git }, credentials: { file: /etc/sluice/key }', /^ok /],
    ['a directory', 'dir: { path: /mnt/receipts }', /^ok /],
    ['a tag', 'oci: { reference: registry.example.com/sluice/shop:1 }', /not of the form REGISTRY\/REPOSITORY/],
    ['two kinds', 'dir: { path: /mnt }, https: { url: https://receipts.example.com/ }', /needs exactly one of/],
    ['plain HTTP to another machine', 'https: { url: http://receipts.example.com/ }', /not a URL of https:/],
    ['an interval of 0', 'dir: { path: /mnt }, intervalSeconds: 0', /intervalSeconds/],
  ])('receipts are pushed to %s', (_title, push, says) => {
    expect(saidBy(source(oci, `receipts: { push: { ${push} } }\n`))).toMatch(says);
  });

  test('receipts are not pushed without a source, because no process would send them', () => {
    expect(saidBy('node: node-a\nreceipts: { push: { dir: { path: /mnt } } }\n')).toContain(
      'receipts.push needs a source',
    );
  });

  test('needs signatures, and a bundle directory of its own', () => {
    expect(saidBy(source(oci, 'signatures: { policy: none }\n'))).toContain('source needs `signatures');
    expect(saidBy(source(oci, 'bundle: /srv/rules\n'))).toContain('leave bundle out');
  });
});
