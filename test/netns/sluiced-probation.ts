import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { expect } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { type DataPlane, SluicedNode, until } from './sluiced-node.ts';

const vip = '10.96.0.11';
export const deadmanSeconds = 6;

/**
 * Endpoint n of a sample bundle has the address 10.244.0.(n + 1). Endpoints 1 and 11 answer with 1, 2 and 12 with 2: two endpoints
 * replaced at once are a release, one would be an endpoint update.
 */
const servers = `
  const { createServer } = require('node:http');
  for (const n of [1, 2, 11, 12]) createServer((_, to) => to.end(String(n % 10))).listen(8080, '10.244.0.' + (n + 1));
`;

/** What a client reaches at the VIP, or the error of its connection. */
export const reached = async (node: SluicedNode): Promise<string> =>
  node.tool(['curl', '-s', '-m', '2', `http://${vip}/`]).catch((error: Error) => error.message);

/** Writes a bundle in which the Service has these endpoints. */
export const publish = (node: SluicedNode, { mode }: Pick<DataPlane, 'mode'>, endpoints: readonly number[]): void =>
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services: { 'shop/web': endpoints }, mode }));

/** Writes a release whose endpoints answer with 1 or with 2. */
export const publishRelease = (node: SluicedNode, plane: DataPlane, answer: 1 | 2): void =>
  publish(node, plane, [answer, answer + 10]);

/** Confirms release 1, which clients reach. */
export async function confirmFirst(node: SluicedNode, plane: DataPlane): Promise<void> {
  const addresses = ['10.244.0.2', '10.244.0.3', '10.244.0.12', '10.244.0.13']
    .map((one) => `ip addr add ${one}/32 dev lo`)
    .join(' && ');
  await node.tool(['sh', '-c', `${addresses} && ip route add 10.96.0.0/12 dev lo`]);
  writeFileSync(`${node.directory}/servers.cjs`, servers);
  node.startProgram([process.execPath, `${node.directory}/servers.cjs`]);
  // The probe fails while there is no Service, and would be retried nine times.
  node.writeConfig(plane.backend);
  publishRelease(node, plane, 1);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  await until('clients are served', async () => (await reached(node)) === '1');
}

/**
 * Confirms release 1 and starts the probation of release 2.
 * @param more fields of `probation` in sluiced.yaml, with a comma before each
 * @param seconds of probation; left out: longer than a test
 * @returns the daemon
 */
export async function startProbation(
  node: SluicedNode,
  plane: DataPlane,
  more = '',
  seconds = 300,
): Promise<ChildProcess> {
  await confirmFirst(node, plane);
  node.writeConfig(
    plane.backend,
    `probation: {seconds: ${seconds}, deadmanSeconds: ${deadmanSeconds}${more}}\nprobes: [{name: web, http: "http://${vip}/", attempts: 9}]\n`,
  );
  publishRelease(node, plane, 2);
  const daemon = node.start();
  await until('clients reach the new release', async () => (await reached(node)) === '2');
  return daemon;
}

/**
 * Asks as a client does, one connection after the other, while something is done to the node.
 * @returns how often endpoint 1 did not answer. Throws what the work throws
 */
export async function missedDuring(node: SluicedNode, work: () => Promise<unknown>): Promise<number> {
  let missed = 0;
  const done = new AbortController();
  const ask = async (): Promise<void> => {
    while (!done.signal.aborted) if ((await reached(node)) !== '1') missed += 1;
  };
  // Together: what fails while nothing waits for it is an error outside of all tests.
  await Promise.all([ask(), work().finally(() => done.abort())]);
  return missed;
}
