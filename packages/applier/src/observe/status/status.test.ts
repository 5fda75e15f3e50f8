import { get } from 'node:http';
import { expect, test } from 'vitest';
import { StatusPort } from '../health/status-port.ts';
import { limits } from '../../limits.ts';
import type { DrainView } from '../../ports/drain.ts';
import type { Generation } from '../../ports/journal.ts';
import { type Sight, Status } from './status.ts';

const nat = {
  chains: new Map([['KUBE-SERVICES', ['-A KUBE-SERVICES -j RETURN', '-A KUBE-SERVICES -j RETURN']]]),
  jumps: [],
};
const filter = { chains: new Map(), jumps: ['-A INPUT -j KUBE-FIREWALL'] };
const generation: Generation = {
  number: 7,
  revision: 0,
  version: 'v7',
  state: { families: { ipv4: { nat, filter } }, sysctls: new Map() },
};

const drain: DrainView = {
  now: { since: '2026-12-01T12:00:00Z', until: null, because: 'operator', untold: 0 },
  ineligible: undefined,
  answers: () => undefined,
};

const ask = (port: number, path: string): Promise<{ status: number | undefined; body: string }> =>
  new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      let body = '';
      response.on('data', (chunk) => (body += String(chunk)));
      response.on('end', () => resolve({ status: response.statusCode, body }));
    }).on('error', reject);
  });

/** Its port, chosen by the kernel. */
async function serve(status: Status): Promise<{ readonly port: number; readonly close: () => void }> {
  const server = new StatusPort('127.0.0.1:0', {
    answer: (request, response) => void status.answer(request, response),
    failed: (why) => expect(why).toBeUndefined(),
  });
  await server.refresh();
  return { port: server.number ?? 0, close: () => server.close() };
}

const name = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const label = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const sampleForm = new RegExp(
  `^(${name})(?:\\{(${label}(?:,${label})*)\\})? (-?[0-9.]+(?:e[-+]?[0-9]+)?|[-+]Inf|NaN)$`,
);

/** Reads the text format 0.0.4 of Prometheus strictly: help and type once before their samples, no sample twice. */
function readExposition(text: string): ReadonlyMap<string, string> {
  expect(text.endsWith('\n')).toBe(true);
  const samples = new Map<string, string>();
  const types = new Map<string, string>();
  let family = '';
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const head = new RegExp(`^# (HELP|TYPE) (${name}) (.+)$`).exec(line);
    if (head?.[1] === 'TYPE') {
      family = head[2] ?? '';
      if (types.has(family)) throw new Error(`two types: ${line}`);
      if (!['counter', 'gauge', 'histogram'].includes(head[3] ?? '')) throw new Error(`no type: ${line}`);
      types.set(family, head[3] ?? '');
    }
    if (head) continue;
    const sample = sampleForm.exec(line);
    expect(sample).not.toBeNull();
    const suffix = types.get(family) === 'histogram' ? '(_bucket|_sum|_count)' : '';
    expect(sample?.[1]).toMatch(new RegExp(`^${family}${suffix}$`));
    const key = line.slice(0, line.lastIndexOf(' '));
    expect(samples.has(key)).toBe(false);
    samples.set(key, sample?.[3] ?? '');
  }
  return samples;
}

test('serves metrics in the Prometheus format, with the names of kube-proxy', async () => {
  const status = new Status(
    'node-a',
    () => 0,
    1000,
    () => 5000,
  );
  status.activate(generation);
  status.ended({ kind: 'confirmed', generation, steps: 1 }, 0.003);
  status.raise('KERNEL', 'a "quoted"\nreason');
  const { port, close } = await serve(status);
  try {
    expect((await ask(port, '/healthz')).status).toBe(503);
    expect((await ask(port, '/livez')).status).toBe(200);
    expect((await ask(port, '/other')).status).toBe(404);
    expect(JSON.parse((await ask(port, '/status')).body)).toMatchObject({
      node: 'node-a',
      generation: 7,
      healthy: false,
    });
    const samples = readExposition((await ask(port, '/metrics')).body);
    expect(Object.fromEntries(samples)).toMatchObject({
      'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002",ip_family="IPv4"}': '0',
      'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004",ip_family="IPv4"}': '1',
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}': '5',
      'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"}': '2',
      'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="filter"}': '1',
      'kubeproxy_proxy_healthz_total{code="503"}': '1',
      'kubeproxy_proxy_livez_total{code="200"}': '1',
      sluice_generation: '7',
      'sluice_alarm{code="KERNEL"}': '1',
      'sluice_outcomes_total{outcome="confirmed"}': '1',
    });
  } finally {
    close();
  }
});

test('is unhealthy after a start until the kernel is compared, and says that a bundle may be confirmed', () => {
  const status = new Status('node-a', () => 0, 1000);
  const why =
    'no bundle was confirmed yet, or the kernel was not compared with the confirmed rules since sluiced started';
  expect(status.report()).toMatchObject({ healthy: false, alarms: { NO_GENERATION: why } });
  status.activate(undefined);
  expect(status.healthy).toBe(false);
  status.activate(generation);
  expect(status.report()).toMatchObject({ healthy: true, alarms: {} });
});

test('/readyz answers for the confirmed rules: an alarm about the newest bundle, or a drain, does not count', async () => {
  const status = new Status('node-a', () => 0, 1000);
  const { port, close } = await serve(status);
  const answers = async (): Promise<string> => {
    const [ready, health] = [await ask(port, '/readyz'), await ask(port, '/healthz')];
    return `${ready.status} ${ready.body.trim()} ${health.status}`;
  };
  expect(await answers()).toBe('503 NO_GENERATION 503');
  status.activate(generation);
  expect(await answers()).toBe('200 ok 200');
  status.raise('SERVICES_LATE', 'shop/web');
  status.watches({ sight: () => ({ ageMs: 0, why: undefined }), slowTool: () => undefined, drain });
  expect(await answers()).toBe('200 ok 503');
  status.raise('KERNEL', 'no iptables');
  expect(await answers()).toBe('503 KERNEL 503');
  close();
});

test('reports signatures in /status and metrics, and keeps alarms of a release until the next one, those of the machine until they clear', async () => {
  const status = new Status('node-a', () => 0, 1000);
  status.signatures('none');
  const { port, close } = await serve(status);
  const metrics = async (): Promise<ReadonlyMap<string, string>> => readExposition((await ask(port, '/metrics')).body);
  expect(JSON.parse((await ask(port, '/status')).body)).toMatchObject({ signatures: 'none', release: null });
  expect((await metrics()).get('sluice_signatures_required')).toBe('0');
  status.signatures('required');
  const release = { cluster: 'shop', serial: 7, digest: 'd', signers: ['alice'], expires: '2026-12-01T00:00:00Z' };
  const expired = { code: 'RELEASE_EXPIRED', level: 'warning', message: 'old', hint: '' } as const;
  status.accepted(release, [expired]);
  status.clearBundle();
  expect(status.report()).toMatchObject({ signatures: 'required', release, alarms: { RELEASE_EXPIRED: 'old' } });
  status.raise('NO_SWITCH', 'no ipset');
  status.refused([]);
  expect(status.report()).toMatchObject({ alarms: { RELEASE_EXPIRED: 'old', NO_SWITCH: 'no ipset' } });
  const after = await metrics();
  expect(after.get('sluice_signatures_required')).toBe('1');
  expect(after.get('sluice_release_serial')).toBe('7');
  expect(after.get('sluice_release_expires_timestamp_seconds')).toBe('1796083200');
  status.accepted(release, []);
  expect(status.report().alarms).not.toHaveProperty('RELEASE_EXPIRED');
  close();
});

test('measures the phases of a transaction, and is unhealthy when the kernel refuses updates for long', async () => {
  let nowMs = 0;
  const status = new Status('node-a', () => nowMs, 1e9);
  status.remembers(
    {
      quarantined: () => 3,
      quarantinedServices: () => 2,
      notBeforeMs: () => 130_000,
      activeSinceMs: () => 40_000,
      conntrack: () => ({ entries: 12, limit: 262_144 }),
    },
    () => 100_000,
  );
  status.activate(generation);
  status.onEvent('phase', { phase: 'stage' });
  nowMs = 400;
  status.onEvent('phase', { phase: 'roll back' });
  status.onEvent('kernel-refused', { because: 'a release that is bad', lane: 'release' });
  status.onEvent('rolling-back', {});
  nowMs = 500;
  status.onEvent('phase', { phase: 'end' });
  status.onEvent('endpoints-updated', {});
  nowMs += limits.unwrittenMsMax;
  expect(status.healthy).toBe(true);
  status.onEvent('kernel-refused', { because: 'x', lane: 'endpoints' });
  const { port, close } = await serve(status);
  const samples = readExposition((await ask(port, '/metrics')).body);
  expect(samples.get('sluice_apply_phase_seconds_sum{phase="write"}')).toBe('0.4');
  expect(samples.get('sluice_apply_phase_seconds_count{phase="back"}')).toBe('1');
  expect(samples.get('sluice_rollbacks_total')).toBe('1');
  expect(samples.get('sluice_trial_updates_total')).toBe('1');
  expect(samples.get('sluice_quarantined_versions')).toBe('3');
  expect(samples.get('sluice_release_waits_until_timestamp_seconds')).toBe('130');
  expect(samples.get('sluice_bundle_age_seconds')).toBe('60');
  nowMs += limits.unwrittenMsMax - 1;
  expect((await ask(port, '/healthz')).status).toBe(200);
  nowMs += 1;
  expect((await ask(port, '/healthz')).status).toBe(503);
  expect(status.report().alarms).toMatchObject({ KERNEL_REFUSES: 'x' });
  expect((await ask(port, '/metrics')).body).toContain('sluice_alarm{code="KERNEL_REFUSES"} 1');
  status.onEvent('in-kernel', {});
  expect((await ask(port, '/healthz')).status).toBe(200);
  expect(status.report().alarms).toEqual({});
  status.onEvent('kernel-refused', { because: 'x', lane: 'endpoints' });
  nowMs += limits.unwrittenMsMax;
  expect(status.healthy).toBe(false);
  status.ended({ kind: 'same', generation }, 0);
  expect(status.healthy).toBe(true);
  close();
});

test('raises a renamed alarm under its former code, too', async () => {
  const status = new Status('node-a', () => 0, 1000);
  status.raise('DRIFT_LOOP', 'another program changed our rules');
  expect(status.report().alarms).toMatchObject({
    DRIFT_LOOP: 'another program changed our rules',
    FIGHT: 'another program changed our rules',
  });
  const { port, close } = await serve(status);
  expect((await ask(port, '/metrics')).body).toMatch(
    /sluice_alarm\{code="DRIFT_LOOP"\} 1\n[^]*sluice_alarm\{code="FIGHT"\} 1\n/,
  );
  close();
  status.clear('DRIFT_LOOP');
  expect(status.report().alarms).not.toHaveProperty('FIGHT');
});

test('a partial generation is an alarm and a metric as long as it is active', async () => {
  const status = new Status('node-a', () => 0, 1000);
  const partial = { of: 'v8', services: ['shop/cart', 'shop/web'], because: 'health failed: cart' };
  status.activate({ ...generation, partial });
  status.ended({ kind: 'confirmed', generation: { ...generation, partial }, steps: 3 }, 1);
  status.clearBundle();
  expect(await status.registry.metrics()).toContain('\nsluice_outcomes_total{outcome="partial"} 1\n');
  expect(status.report().alarms['RELEASE_PARTIAL']).toBe(
    'version v8 without shop/cart, shop/web, which stay as before: health failed: cart',
  );
  expect(await status.registry.metrics()).toContain('\nsluice_services_left_out 2\n');
  status.activate(generation);
  expect(status.report().alarms).not.toHaveProperty('RELEASE_PARTIAL');
  expect(await status.registry.metrics()).toContain('\nsluice_services_left_out 0\n');
});

test('tells of connections to removed endpoints with their number where they are counted', async () => {
  const status = new Status('node-a', () => 0, 1e9);
  status.onEvent('flows-stale', { connections: 5000, because: 'busy' });
  expect(status.report().alarms['FLOWS_STALE']).toContain('Cannot forget 5000 connections to');
  status.onEvent('flows-stale', { because: 'busy' });
  expect(status.report().alarms['FLOWS_STALE']).toContain('Cannot forget connections to');
  expect(await status.registry.metrics()).toContain('\nsluice_stale_flows 1\n');
});

test('says how old its knowledge of the rules is, and is unhealthy when that is too old', async () => {
  const status = new Status('node-a', () => 0, 60_000);
  status.activate(generation);
  let sight: Sight = { ageMs: 1_400, why: undefined };
  status.watches({ sight: () => sight, slowTool: () => undefined });
  const { port, close } = await serve(status);
  try {
    expect(await ask(port, '/healthz')).toMatchObject({
      status: 200,
      body: expect.stringContaining('"rulesSeenSeconds": 1'),
    });
    sight = { ageMs: 95_000, why: '95 s ago' };
    const { status: code, body } = await ask(port, '/healthz');
    expect([code, JSON.parse(body)]).toMatchObject([
      503,
      { rulesSeenSeconds: 95, alarms: { RULES_UNSEEN: '95 s ago' } },
    ]);
    expect(readExposition((await ask(port, '/metrics')).body).get('sluice_rules_seen_seconds')).toBe('95');
  } finally {
    close();
  }
});

test('is unhealthy while a tool does not end, and names it', () => {
  const status = new Status('node-a', () => 0, 60_000);
  status.activate(generation);
  let slow: string | undefined = 'nft has not ended for 31 s';
  status.watches({ sight: () => ({ ageMs: 0, why: undefined }), slowTool: () => slow });
  expect(status.report()).toMatchObject({ healthy: false, alarms: { TOOL_SLOW: slow } });
  slow = undefined;
  expect(status.report()).toMatchObject({ healthy: true, alarms: {} });
});
