import { chmodSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { RequestOptions } from 'node:https';
import { join } from 'node:path';
import * as library from '@kubernetes/client-node';
import { afterEach, beforeEach, vi } from 'vitest';
import { type ApiObject, token } from '../../../../test/cluster/apiserver.fixture.ts';
import { LiveCluster } from '../../../../test/cluster/live.fixture.ts';
import { node, serviceOf } from '../../../../test/cluster/objects.fixture.ts';

/** A cluster of one node and five Services before each test, and the client library on it. */

/** A new one for each test. */
export let cluster: LiveCluster;
/** What is aborted after a test. */
export let stop: AbortController[];

/** A file beside the server. */
export const at = (name: string): string => join(cluster.server.dir, name);

/** The path of a kubeconfig. @param user its credentials @param of the rest of its cluster */
export const kubeconfigOf = (user: ApiObject = { token }, of: ApiObject = {}): string =>
  cluster.server.kubeconfig(user, { 'certificate-authority': at('ca.crt'), ...of });

/** The same as the client library reads it. */
export function configOf(user?: ApiObject, of?: ApiObject): library.KubeConfig {
  const config = new library.KubeConfig();
  config.loadFromFile(kubeconfigOf(user, of));
  return config;
}

/** The options of a request of the client library. */
export async function optionsOf(config: library.KubeConfig): Promise<RequestOptions> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  return options;
}

/** Waits, in milliseconds. */
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Whether a promise is settled within a time. */
export const endsWithin = (ms: number, promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    promise.then(
      () => true,
      () => true,
    ),
    pause(ms).then(() => false),
  ]);

/** A user with a program for credentials. */
export async function program(name: string, script: string): Promise<ApiObject> {
  writeFileSync(at(name), `#!/bin/sh\n${script}\n`);
  chmodSync(at(name), 0o755);
  return { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: at(name), interactiveMode: 'Never' } };
}

/** The API of the client library. */
export const core = (config: library.KubeConfig): library.CoreV1Api => config.makeApiClient(library.CoreV1Api);

/** The connections of the server. */
export function countConnections(): () => number {
  const sockets = new Set<unknown>();
  const answer = cluster.server.intercept;
  cluster.server.intercept = (path, asked, response) => {
    sockets.add(asked.socket);
    return answer(path, asked, response);
  };
  return () => sockets.size;
}

/** Answers watches. */
export function answerWatch(answer: (response: ServerResponse) => void): void {
  cluster.server.intercept = (path, asked, response) => {
    if (!path.includes('watch=')) return cluster.answer(path, asked, response);
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    answer(response);
    return true;
  };
}

/** What a watch of the client library saw. */
interface Seen {
  readonly events: string[];
  readonly ends: unknown[];
}

/** Watches Services by the client library. @param each is called with the type of each event */
export async function watchServices(config = configOf(), each: (type: string) => void = () => {}): Promise<Seen> {
  const seen: Seen = { events: [], ends: [] };
  const controller = await new library.Watch(config).watch(
    '/api/v1/services',
    { allowWatchBookmarks: true },
    (type: string, object: { metadata?: { name?: string } }) => {
      seen.events.push(`${type} ${object.metadata?.name ?? ''}`.trim());
      each(type);
    },
    (error) => seen.ends.push(error),
  );
  stop.push(controller);
  return seen;
}

/** A line of a watch. */
export const lineOf = (type: string, name: string): string =>
  `${JSON.stringify({ type, object: { metadata: { name } } })}\n`;

/**
 * Starts the cluster before each test. To be called by each file of tests: several of them share this module in one process, where hooks of a module are those of the first one alone.
 */
export function withCluster(): void {
  beforeEach(async () => {
    cluster = await LiveCluster.start();
    for (const n of [1, 2, 3, 4, 5]) cluster.put('services', serviceOf(`s${n}`, n));
    cluster.put('nodes', node);
    stop = [];
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    for (const one of stop) one.abort();
    await cluster.server.close();
  });
}
