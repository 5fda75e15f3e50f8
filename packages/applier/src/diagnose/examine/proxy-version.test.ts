import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { kubeProxyVersion } from './observation.ts';

/** Asks a server that answers with a text. */
async function versionOf(text: string): Promise<string | undefined> {
  const server = createServer((_request, response) => response.end(text));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await kubeProxyVersion(`http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`);
  } finally {
    server.close();
  }
}

test.each([
  [
    'of kube-proxy',
    '# HELP kubernetes_build_info A metric\nkubernetes_build_info{build_date="x",git_version="v1.31.4",major="1"} 1\n',
    'v1.31.4',
  ],
  [
    'far behind in its metrics',
    `${'a 1\n'.repeat(200_000)}kubernetes_build_info{git_version="v1.28.15"} 1\n`,
    'v1.28.15',
  ],
  ['not of another program', 'sluice_build_info{version="0.2.0"} 1\n', undefined],
  ['not of a strange form', 'kubernetes_build_info{git_version="latest"} 1\n', undefined],
])('the version %s', async (_title, text, version) => {
  expect(await versionOf(text)).toBe(version);
});

test('no version where nothing listens', async () => {
  expect(await kubeProxyVersion('http://127.0.0.1:1/metrics')).toBeUndefined();
});
