/** For programs that run on a node of the rig: asks the API server, and Services. */
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** Asks the API server that a kubeconfig with a token names. */
export type Send = (method: string, path: string, body?: unknown) => Promise<unknown>;

interface TokenConfig {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority': string } },
  ];
  readonly users: readonly [{ readonly user: { readonly token: string } }];
}

function accessOf(kubeconfig: string) {
  const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as TokenConfig;
  const [{ cluster }] = config.clusters;
  const headers = { authorization: `Bearer ${config.users[0].user.token}`, 'content-type': 'application/json' };
  return { server: cluster.server, options: { ca: readFileSync(cluster['certificate-authority']), headers } };
}

/** @returns a function whose result is the answer, and which throws where that is an error */
export function senderOf(kubeconfig: string): Send {
  const { server, options } = accessOf(kubeconfig);
  return (method, path, body) => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const asked = request(`${server}${path}`, { method, ...options }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => {
        if ((response.statusCode ?? 500) < 300) resolve(JSON.parse(text));
        else reject(new Error(`${method} ${path}: ${response.statusCode}`));
      });
    });
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
    return promise;
  };
}

/** Takes each object of a list, and each that changes, as long as the process lives. @param path of the list, with a query */
export function follow(kubeconfig: string, path: string, take: (object: unknown) => void): void {
  const { server, options } = accessOf(kubeconfig);
  const asked = request(`${server}${path}&watch=true`, options, (response) => {
    createInterface({ input: response }).on('line', (line) =>
      take((JSON.parse(line) as { readonly object: unknown }).object),
    );
  });
  asked.end();
}

export const services = '/api/v1/namespaces/default/services';
export const slices = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';

/** A Service without a selector, on port 80. */
export const serviceOf = (name: string, clusterIP?: string): unknown => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'default' },
  spec: { ...(clusterIP === undefined ? {} : { clusterIP }), ports: [{ port: 80 }] },
});

/** Its endpoints, on port 8080 of pods. */
export const sliceOf = (name: string, ...addresses: readonly string[]): unknown => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name, namespace: 'default', labels: { 'kubernetes.io/service-name': name } },
  addressType: 'IPv4',
  ports: [{ port: 8080, protocol: 'TCP' }],
  endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
});

/** The pod that answered, or the code of the error. */
export type Answer = { readonly pod: string } | { readonly lost: string };

/**
 * Opens a new connection to port 80 of an address, and asks which pod answers.
 * @param timeoutMs until the end of its answer
 */
export function ask(address: string, timeoutMs: number): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const host = address.includes(':') ? `[${address}]` : address;
  const asked = get(`http://${host}/hostname`, { agent: false }, (response) => {
    let pod = '';
    response.setEncoding('utf8').on('data', (part: string) => (pod += part));
    response.on('end', () => resolve(response.statusCode === 200 ? { pod } : { lost: `${response.statusCode}` }));
    response.on('error', () => resolve({ lost: 'ECONNRESET' }));
  });
  // Not the option `timeout`: that one counts from the last byte.
  const late = setTimeout(() => asked.destroy(new Error('no answer')), timeoutMs);
  asked.on('error', (error: NodeJS.ErrnoException) => resolve({ lost: error.code ?? error.message }));
  return promise.finally(() => clearTimeout(late));
}

/** Whether a new connection to port 80 of an address is taken. */
export function opens(address: string, timeoutMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: address, port: 80 });
  const late = setTimeout(() => socket.destroy(), timeoutMs);
  socket.once('connect', () => resolve(true)).once('connect', () => socket.destroy());
  socket.on('error', () => undefined).once('close', () => resolve(false));
  return promise.finally(() => clearTimeout(late));
}
