import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';

/** What the ports of kube-proxy tell. */
export interface ProxyView {
  /** Whether the rules are known to be right. */
  readonly healthy: boolean;
  /** Whether load balancers may send to this node: it is not drained, and the cluster is not to delete it. */
  readonly eligible: boolean;
  /** Whether the main loop makes progress. */
  readonly alive: boolean;
  /** By family, `IPv4`, when it was synced last, in milliseconds since 1970. */
  readonly lastSyncedMs: ReadonlyMap<string, number>;
  /** kube-proxy's name of the mode; undefined before the first generation. */
  readonly mode: 'iptables' | 'ipvs' | 'nftables' | undefined;
  readonly registry: Registry;
  readonly nowMs: number;
  /** Counts an answer of /healthz or /livez. */
  answered(path: 'healthz' | 'livez', code: number, address: string): void;
}

/**
 * Answers as kube-proxy's port for load balancers, 10256, does (`pkg/proxy/healthcheck/proxy_health.go` of Kubernetes 1.37): /healthz and
 * /livez with the same document and the same codes. `nodeEligible` is false while the node is drained, or its Node is to be deleted
 * (KEP-3836).
 */
export const answerHealth =
  (view: () => ProxyView): RequestListener =>
  (request, response) => {
    const path = pathOf(request, response, ['/healthz', '/livez']);
    if (path === undefined) return;
    const now = view();
    const isHealthz = path === '/healthz';
    const isWell = isHealthz ? now.healthy : now.alive;
    const code = isWell && (now.eligible || !isHealthz) ? 200 : 503;
    now.answered(isHealthz ? 'healthz' : 'livez', code, request.socket.remoteAddress ?? '');
    send(response, code, 'application/json', JSON.stringify(healthOf(now, isWell, isHealthz)));
  };

/** Answers as kube-proxy's port for scrapers, 10249, does (`serveMetrics` in `cmd/kube-proxy/app/server.go`): /metrics, /healthz, /proxyMode. */
export const answerMetrics =
  (view: () => ProxyView): RequestListener =>
  (request, response) => {
    const path = pathOf(request, response, ['/metrics', '/healthz', '/proxyMode']);
    if (path === undefined) return;
    const now = view();
    if (path === '/metrics') void sendMetrics(now.registry, response);
    else if (path === '/healthz') send(response, 200, 'text/plain; charset=utf-8', 'ok');
    else send(response, now.mode ? 200 : 503, 'text/plain; charset=utf-8', now.mode ?? 'no generation is active yet\n');
  };

/** The document of kube-proxy's `ProxyHealth`. Its `lastUpdated` is the present while it is healthy. */
function healthOf({ lastSyncedMs, nowMs, eligible }: ProxyView, healthy: boolean, isHealthz: boolean): object {
  const time = (ms: number): string => new Date(ms).toISOString();
  const status = [...lastSyncedMs].map(([family, ms]) => [family, { lastUpdated: time(ms), healthy }] as const);
  return {
    lastUpdated: healthy ? time(nowMs) : lastUpdated(lastSyncedMs, time),
    currentTime: time(nowMs),
    ...(isHealthz ? { nodeEligible: eligible } : {}),
    healthy,
    ...(status.length > 0 ? { status: Object.fromEntries(status) } : {}),
  };
}

/** Go prints a time that was never set like this. */
const never = '0001-01-01T00:00:00Z';

const lastUpdated = (syncedMs: ReadonlyMap<string, number>, time: (ms: number) => string): string =>
  syncedMs.size === 0 ? never : time(Math.max(...syncedMs.values()));

/** @returns undefined for another path or method, which is answered then */
function pathOf(request: IncomingMessage, response: ServerResponse, known: readonly string[]): string | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    send(response, 405, 'text/plain', 'only GET\n');
    return undefined;
  }
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  if (known.includes(path)) return path;
  send(response, 404, 'text/plain', `not found; there are ${known.join(', ')}\n`);
  return undefined;
}

async function sendMetrics(registry: Registry, response: ServerResponse): Promise<void> {
  send(response, 200, registry.contentType, await registry.metrics());
}

function send(response: ServerResponse, code: number, type: string, body: string): void {
  response.writeHead(code, { 'content-type': type, 'x-content-type-options': 'nosniff' }).end(body);
}
