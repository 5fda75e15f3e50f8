import { createServer, type Server, type ServerResponse } from 'node:http';
import { compareText } from '@sluice/netfilter';
import type { Metrics } from './metrics.ts';
import { listening } from './serve/listening.ts';

/** The active alarms with their reasons. */
export class Alarms {
  readonly #alarms = new Map<string, { readonly why: string; readonly sinceMs: number }>();
  readonly #now: () => number;

  /** @param now monotonic, in milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** @returns whether the alarm or its reason is new */
  raise(name: string, why: string): boolean {
    const before = this.#alarms.get(name);
    this.#alarms.set(name, { why, sinceMs: before?.sinceMs ?? this.#now() });
    return before?.why !== why;
  }

  /** @returns whether the alarm was active */
  clear(name: string): boolean {
    return this.#alarms.delete(name);
  }

  /** The alarms that have been active for at least `ms`, sorted. */
  active(ms = 0): readonly string[] {
    const old = [...this.#alarms].filter(([, { sinceMs }]) => this.#now() - sinceMs >= ms);
    return old.map(([name, { why }]) => `${name}: ${why}`).toSorted(compareText);
  }
}

/** A connection that is lost for a moment must not fail the health check. */
const graceMs = 10_000;

/**
 * Serves `/healthz`, `/livez` and `/metrics`. Read-only: no request changes anything.
 * @throws Stopped with `LISTEN_FAILED` when the address cannot be listened on
 */
export function serveHealth(address: string, alarms: Alarms, metrics: Metrics): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') reply(response, 405, 'use GET\n');
    else void answer(request.url ?? '/', response, alarms, metrics);
  });
  // A client that sends nothing occupies only a socket, and not for long.
  server.requestTimeout = 10_000;
  return listening(server, address, 'health and metrics', '--listen');
}

async function answer(url: string, response: ServerResponse, alarms: Alarms, metrics: Metrics): Promise<void> {
  switch (url.replace(/\?.*/, '')) {
    case '/livez':
      return reply(response, 200, 'ok\n');
    case '/healthz': {
      const active = alarms.active(graceMs);
      return reply(response, active.length === 0 ? 200 : 503, active.length === 0 ? 'ok\n' : `${active.join('\n')}\n`);
    }
    case '/metrics':
      response.setHeader('content-type', metrics.registry.contentType);
      return reply(response, 200, await metrics.registry.metrics());
    default:
      return reply(response, 404, 'use /healthz, /livez or /metrics\n');
  }
}

function reply(response: ServerResponse, status: number, body: string): void {
  if (!response.hasHeader('content-type')) response.setHeader('content-type', 'text/plain; charset=utf-8');
  response.statusCode = status;
  response.end(body);
}
