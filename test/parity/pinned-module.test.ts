// @module-tag quick
import { expect, test } from 'vitest';
import { isVersion, moduleFor } from './pinned-module.ts';

test.each(['1.37.2', '1.38.0-beta.0', '1.38.0-rc.1', '1.38.0'])('%s is a version', (text) => {
  expect(isVersion(text)).toBe(true);
});

test.each(['1.38', 'v1.38.0', '1.38.0-alpha.1', '1.38.0-rc', '1.38.0-beta.0 ', '2.0.0'])('%j is none', (text) => {
  expect(isVersion(text)).toBe(false);
});

/** As Kubernetes has it, in short. */
const theirs = (go: string, more = ''): string =>
  `module k8s.io/kubernetes\n\ngo ${go}\n\nrequire (\n${more}\tk8s.io/api v0.0.0\n)\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n`;

test('its parts have the number of the version, also before its release', () => {
  expect(moduleFor('1.37.2', theirs('1.26.0'))).toContain('\tk8s.io/api => k8s.io/api v0.37.2\n');
  const beta = moduleFor('1.38.0-beta.0', theirs('1.27.0'), ['example.org/tool']);
  expect(beta).toContain('require k8s.io/kubernetes v1.38.0-beta.0\n');
  expect(beta).toContain('\tk8s.io/api => k8s.io/api v0.38.0-beta.0\n');
  expect(beta).toContain('\tk8s.io/kubernetes/cmd/kube-proxy\n\texample.org/tool\n');
});

test.each([
  ['1.27.0', 'go 1.27.0\n\ngodebug default=go1.27\n'],
  // Without lines for tools: the oldest that has them builds it, with the behaviour that it asks for.
  ['1.22.0', 'go 1.24.0\n\ngodebug default=go1.22\n'],
  ['1.22', 'go 1.24.0\n\ngodebug default=go1.22\n'],
])('asks for Go %s as Kubernetes does', (go, lines) => {
  expect(moduleFor('1.38.0', theirs(go))).toContain(lines);
});

test('a module that moved, and cannot be had, has a stand-in, in that version alone', () => {
  const wrappers = (version: string): string =>
    moduleFor('1.38.0-beta.0', theirs('1.27.0', `\tsigs.k8s.io/iptables-wrappers ${version}\n`));
  expect(wrappers('v1.0.0')).toContain('=> ../../stand-ins/iptables-wrappers\n');
  expect(wrappers('v1.0.1')).not.toContain('stand-ins');
  expect(moduleFor('1.37.2', theirs('1.26.0'))).not.toContain('stand-ins');
});
