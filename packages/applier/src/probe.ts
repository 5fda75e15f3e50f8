import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';
import { connect } from 'node:net';
import type { ProbeConfig } from './config.ts';
import type { Run } from './kernel/run.ts';
import { limits } from './limits.ts';
import type { ProbeResult, Probes } from './rollout/ports.ts';

/**
 * The node's health checks. Each try opens a new connection: an old one rides on conntrack and hides that new ones fail.
 * @param probes from the node's config; a bundle brings none
 */
export function configuredProbes(probes: readonly ProbeConfig[], run: Run): Probes {
  const once = async (probe: ProbeConfig): Promise<ProbeResult> => ({
    name: probe.name,
    ...(await tryOnce(probe, run)),
  });
  return {
    policies: probes.map(({ name, attempts }) => ({ name, failures: attempts, window: attempts })),
    intervalMs: Math.min(...probes.map(({ intervalSeconds }) => intervalSeconds * 1000), limits.probeIntervalMsMax),
    once: () => Promise.all(probes.map(once)),
  };
}

type Seen = Omit<ProbeResult, 'name'>;

function tryOnce(probe: ProbeConfig, run: Run): Promise<Seen> {
  const timeoutMs = probe.timeoutSeconds * 1000;
  if ('http' in probe) return tryHttp(probe.http, timeoutMs);
  if ('tcp' in probe) return tryTcp(probe.tcp, timeoutMs);
  return tryExec(probe.exec, timeoutMs, run);
}

/** Healthy: a status from 200 to 399, as the kubelet counts. Redirects are not followed. */
export function tryHttp(url: string, timeoutMs: number): Promise<Seen> {
  const { promise, resolve } = Promise.withResolvers<Seen>();
  const get = url.startsWith('https:') ? getSecure : getPlain;
  const request = get(url, { agent: false, headers: { 'user-agent': 'sluiced', connection: 'close' } }, (response) => {
    const status = response.statusCode ?? 0;
    response.destroy();
    resolve({ healthy: status >= 200 && status < 400, seen: `status ${status}` });
  });
  const timer = setTimeout(() => request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  request.on('error', (error) => resolve({ healthy: false, seen: error.message }));
  request.on('close', () => clearTimeout(timer));
  return promise;
}

/** Healthy: the connection is accepted. */
export function tryTcp(address: string, timeoutMs: number): Promise<Seen> {
  const { promise, resolve } = Promise.withResolvers<Seen>();
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  const socket = connect({ host, port: Number(address.slice(colon + 1)) });
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)));
  socket.on('connect', () => {
    resolve({ healthy: true, seen: 'connected' });
    socket.destroy();
  });
  socket.on('error', (error) => resolve({ healthy: false, seen: error.message }));
  return promise;
}

/** Healthy: exit code 0. */
async function tryExec([file, ...args]: readonly string[], timeoutMs: number, run: Run): Promise<Seen> {
  const { exitCode, why } = await run({ file: file ?? '', args, timeoutMs });
  return exitCode === 0 ? { healthy: true, seen: 'exit code 0' } : { healthy: false, seen: why };
}
