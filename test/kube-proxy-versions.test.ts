import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ruleDifferences, objectDifferences } from '../packages/renderer/src/render/versions/differences.ts';
import { otherDifferences } from '../packages/renderer/src/render/versions/other-differences.fixture.ts';
import { comparedRuns } from './parity/runs.ts';
import { isBefore, kubeProxyVersions, versionByDefault } from '../packages/renderer/src/render/model/version.ts';

const root = join(import.meta.dirname, '..');
const page = join(root, 'docs', 'kube-proxy-versions.md');

const followed = [
  ...objectDifferences.map((difference) => ({ ...difference, followedBy: difference.older.name })),
  ...ruleDifferences,
].toSorted((a, b) => Number(isBefore(a.since, b.since)) - Number(isBefore(b.since, a.since)));

/** The page of all differences between versions of kube-proxy. */
const text = `# Versions of kube-proxy

A profile of sluice.yaml names the version of kube-proxy whose behaviour its rules follow, from ${kubeProxyVersions[0]} to ${kubeProxyVersions.at(-1)}; each with its newest patch release. Profiles of one cluster may name different ones.

\`\`\`yaml
profiles:
  - name: default
    kubeProxyVersion: "1.34"
\`\`\`

A profile without a version follows ${versionByDefault}, also with a later Sluice; where another version would serve a Service of the input differently, a note says so (\`KUBE_PROXY_VERSION_UNSET\`).
\`sluice init\` writes the version, and takes it from kube-proxy's DaemonSet where it is in the input.
Name the version that the nodes run before Sluice takes over from kube-proxy, and the new one when Kubernetes is upgraded: \`sluice diff\` then shows the effect on traffic.

## Differences that rules follow

| since | kube-proxy does | before | followed by |
|---|---|---|---|
${followed.map(({ since, now, before, followedBy }) => `| ${since} | ${now} | ${before} | \`${followedBy}\` |\n`).join('')}
## Differences that rules do not follow

| since | kube-proxy does | before | why rules do not follow |
|---|---|---|---|
${otherDifferences.map(({ since, now, before, why }) => `| ${since} | ${now} | ${before} | ${why} |\n`).join('')}
## Last compared

The same clusters were given to the real kube-proxy and to Sluice, and packets were sent through both kernels; [parity.md](parity.md#last-runs) names the differences that were found. \`test/parity\` wrote this down.

| kube-proxy | mode | compared | packets | on |
|---|---|---|---|---|
${comparedRuns()
  .map(
    (run) =>
      `| ${run.kubeProxy} | ${run.mode} | ${run.count} ${run.what} | ${run.packets.toLocaleString('en')} | ${run.date} |\n`,
  )
  .join('')}`;

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/kube-proxy-versions.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});

test('the functions that the page names are in the code', () => {
  const folder = join(root, 'packages/renderer/src/render');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const code = files.map((name) => readFileSync(join(folder, name), 'utf8')).join('');
  const missing = followed.filter(({ followedBy }) => !code.includes(`function ${followedBy}(`));
  expect(missing).toEqual([]);
});
