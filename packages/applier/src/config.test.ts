import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
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
