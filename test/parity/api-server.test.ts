// @module-tag test
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../cluster/port.fixture.ts';
import { until } from '../netns/until.ts';
import type { KubeChange, KubeItem } from './api-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'sluice-parity-api-'));
const service = (name: string): KubeItem => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop' },
});
let server: ReturnType<typeof spawn>;
let url = '';

beforeAll(async () => {
  writeFileSync(join(dir, 'objects.json'), JSON.stringify([service('old')]));
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const program = join(import.meta.dirname, 'api-server.ts');
  server = spawn(process.execPath, [program, join(dir, 'objects.json'), String(port)], { stdio: 'inherit' });
  await until('the server answers', () =>
    fetch(`${url}/api/v1/services`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
});
afterAll(() => {
  server.kill();
  rmSync(dir, { recursive: true });
});

const change = (...changes: readonly KubeChange[]): Promise<Response> =>
  fetch(`${url}/change`, { method: 'POST', body: JSON.stringify(changes) });

test('a watch that opens after a change gets the changes since its list', async () => {
  const list = (await (await fetch(`${url}/api/v1/services`)).json()) as { metadata: { resourceVersion: string } };
  await change({ type: 'put', item: service('new') }, { type: 'remove', item: service('old') });
  const watch = await fetch(`${url}/api/v1/services?watch=1&resourceVersion=${list.metadata.resourceVersion}`);
  await change({ type: 'put', item: service('last') });
  const events: unknown[] = [];
  let rest = '';
  for await (const part of watch.body as AsyncIterable<Uint8Array>) {
    const lines = `${rest}${new TextDecoder().decode(part)}`.split('\n');
    rest = lines.pop() ?? '';
    events.push(...lines.map((line) => JSON.parse(line) as unknown));
    if (events.length >= 3) break;
  }
  expect(events).toMatchObject([
    { type: 'ADDED', object: { metadata: { name: 'new', resourceVersion: '2' } } },
    { type: 'DELETED', object: { metadata: { name: 'old', resourceVersion: '3' } } },
    { type: 'ADDED', object: { metadata: { name: 'last', resourceVersion: '4' } } },
  ]);
});
