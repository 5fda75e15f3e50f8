import { describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import type { Generation } from '../../ports/journal.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { decidePartial, type FailingRelease, type PartialDecision } from './decide.ts';
import { leaveOut, quarantinedAfter } from './leave-out.ts';
import { versionsOf } from './services.ts';

/** Which Services of a release are rolled back, and what is left of it. */

type Services = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

const settings = ['table address', 'pods 10.244.0.0/16'];

/** A state from Services, each with its frontends by address; `health 32090` stands for a port of health checks. */
function stateOf(services: Services, more: Partial<NodeState> = {}) {
  const frontends = new Map<string, readonly string[]>();
  const names = new Map<string, readonly string[]>();
  const ports: string[] = [];
  for (const [service, own] of Object.entries(services)) {
    names.set(
      service,
      Object.keys(own).map((one) => (one.startsWith('health ') ? one : `frontend ${one} . tcp . 80`)),
    );
    for (const [address, lines] of Object.entries(own)) {
      if (address.startsWith('health ')) ports.push(address);
      else frontends.set(`${address} . tcp . 80`, lines);
    }
  }
  const nft = { settings: [...settings, ...ports.toSorted()], frontends };
  return { families: {}, sysctls: new Map(), nft, services: names, ...more };
}

const pods = (...all: readonly string[]): readonly string[] => all.map((one) => `endpoint ${one} . 8080`);
const before: Services = {
  'shop/cart': { '10.96.0.1': pods('10.244.0.1') },
  'shop/web': { '10.96.0.2': pods('10.244.0.2') },
};
const after: Services = {
  'shop/cart': { '10.96.0.1': pods('10.244.1.1') },
  'shop/web': { '10.96.0.2': pods('10.244.1.2') },
};

const generation = (state: NodeState): Generation => ({ number: 7, revision: 0, version: 'a'.repeat(16), state });

function decide(
  to: NodeState,
  from: NodeState = stateOf(before),
  services: readonly (string | undefined)[] = ['shop/cart'],
  more: Partial<FailingRelease> = {},
): PartialDecision {
  return decidePartial({
    from: generation(from),
    bundle: { version: 'b'.repeat(16), state: to },
    flip: 'switch',
    failed: services.map((service, at) => ({ name: `probe-${at}`, service })),
    because: 'health failed',
    ...more,
  });
}

/** The frontends of a partial release, or why there is none. */
function told(decision: PartialDecision): string {
  if (decision.kind === 'all') return decision.why;
  const { nft } = decision.bundle.state;
  const lines = [...(nft?.frontends ?? [])].map(([key, text]) => `${key.split(' ')[0]} ${text.join(',').slice(9)}`);
  return [...lines.toSorted(), ...(nft?.settings.slice(settings.length) ?? [])].join('; ');
}

test.each([
  ['keeps the rest', after, before, '10.96.0.1 10.244.0.1 . 8080; 10.96.0.2 10.244.1.2 . 8080'],
  [
    'removes a Service that the release adds',
    after,
    { 'shop/web': before['shop/web'] ?? {} },
    '10.96.0.2 10.244.1.2 . 8080',
  ],
  [
    'keeps a Service that the release removes',
    { 'shop/web': after['shop/web'] ?? {} },
    before,
    '10.96.0.1 10.244.0.1 . 8080; 10.96.0.2 10.244.1.2 . 8080',
  ],
  [
    'gives a Service its old frontends and its old port of health checks',
    {
      ...after,
      'shop/cart': { '10.96.0.9': pods('10.244.1.1'), 'health 32099': [] },
      'shop/dns': { 'health 32091': [] },
    },
    { ...before, 'shop/cart': { '10.96.0.1': pods('10.244.0.1'), 'health 32090': [] } },
    '10.96.0.1 10.244.0.1 . 8080; 10.96.0.2 10.244.1.2 . 8080; health 32090; health 32091',
  ],
] as const)('%s', (_title, to, from, expected) => {
  expect(told(decide(stateOf(to), stateOf(from)))).toBe(expected);
});

test.each([
  [
    'a probe names no Service',
    decide(stateOf(after), undefined, ['shop/cart', undefined]),
    'probe probe-1 names no Service',
  ],
  [
    'every changed Service fails',
    decide(stateOf(after), undefined, ['shop/cart', 'shop/web']),
    'every changed Service fails',
  ],
  [
    'the release does not change the Service',
    decide(stateOf(after), undefined, ['shop/cart', 'shop/other']),
    'the release does not change shop/other',
  ],
  [
    'the release changes sysctls',
    decide(stateOf(after, { sysctls: new Map([['net.ipv4.ip_forward', 1]]) })),
    'the release changes more than Services',
  ],
  [
    'the release goes in without a switch',
    decide(stateOf(after), undefined, undefined, { flip: 'ordered' }),
    'the release changes more than Services',
  ],
  [
    'a frontend moves to another Service',
    decide(stateOf({ ...after, 'shop/cart': {}, 'shop/taker': { '10.96.0.1': pods('10.244.1.1') } })),
    'frontend 10.96.0.1 . tcp . 80 is of shop/cart and of shop/taker',
  ],
  [
    'a frontend comes from another Service',
    decide(stateOf(after), stateOf({ ...before, 'shop/cart': {}, 'shop/giver': { '10.96.0.1': pods('10.244.0.1') } })),
    'frontend 10.96.0.1 . tcp . 80 is of shop/cart and of shop/giver',
  ],
  [
    'the old generation does not say whose a frontend is',
    decide(stateOf(after), { families: {}, sysctls: new Map(), nft: stateOf(before).nft }),
    'generation 7 does not say which frontend is whose',
  ],
  [
    'the mode is another one',
    decide(stateOf(after), { families: {}, sysctls: new Map() }),
    'single Services can be rolled back in mode nftables alone',
  ],
] as const)('rolls all back where %s', (_title, decision, why) => {
  expect(told(decision)).toBe(why);
});

test('rolls all back where more Services fail than a generation may lack', () => {
  const names = Array.from({ length: 40 }, (_, at) => `shop/s${at}`);
  const many = (pod: string): NodeState =>
    stateOf(Object.fromEntries(names.map((name, at) => [name, { [`10.96.1.${at}`]: pods(`${pod}.${at}`) }])));
  expect(told(decide(many('10.244.1'), many('10.244.0'), names.slice(0, limits.partialServicesMax + 1)))).toBe(
    'more than 16 Services fail',
  );
  expect(decide(many('10.244.1'), many('10.244.0'), names.slice(0, limits.partialServicesMax)).kind).toBe('partial');
});

describe('the version of a Service', () => {
  const of = (service: Services[string]) => versionsOf('shop/cart', stateOf({ 'shop/cart': service }));
  const base = of({ '10.96.0.1': [...pods('10.244.0.1', '10.244.0.2'), 'local 10.244.0.1 . 8080'] });

  test.each([
    ['other endpoints', { '10.96.0.1': pods('10.244.9.1') }, true, false],
    [
      'the same endpoints in other slots',
      { '10.96.0.1': ['local 10.244.0.1 . 8080', ...pods('10.244.0.2', '10.244.0.1')] },
      true,
      true,
    ],
    ['another port of the endpoints', { '10.96.0.1': ['endpoint 10.244.0.1 . 8081'] }, false, false],
    ['session affinity', { '10.96.0.1': ['affinity 600', ...pods('10.244.0.1')] }, false, false],
    ['another frontend', { '10.96.0.1': pods('10.244.0.1'), '10.96.0.2': [] }, false, false],
    ['no endpoint', { '10.96.0.1': ['none refuse'] }, false, false],
  ] as const)('with %s', (_title, service, sameForm, sameExact) => {
    const { form, exact } = of(service);
    expect([form === base.form, exact === base.exact]).toEqual([sameForm, sameExact]);
  });
});

describe('a quarantined Service is left out of a later bundle', () => {
  const failed = decide(stateOf({ ...after, 'shop/cart': { '10.96.0.1': ['endpoint 10.244.1.1 . 9999'] } }));
  const quarantine = failed.kind === 'partial' ? failed.quarantine : [];
  const active = generation(stateOf(before));
  const put = (services: Services) =>
    leaveOut({ version: 'c'.repeat(16), state: stateOf(services) }, active, quarantine);

  test.each([
    [
      'with other endpoints of the same version',
      { ...after, 'shop/cart': { '10.96.0.1': ['endpoint 10.244.7.7 . 9999'] } },
      ['shop/cart'],
    ],
    ['not in another version', { ...after, 'shop/cart': { '10.96.0.1': ['endpoint 10.244.1.1 . 9998'] } }, undefined],
    ['not as the node has it', { ...after, 'shop/cart': before['shop/cart'] ?? {} }, undefined],
    ['not when the bundle does not have it any more', { 'shop/web': after['shop/web'] ?? {} }, undefined],
  ] as const)('%s', (_title, services, expected) => {
    const bundle = put(services);
    expect('partial' in bundle ? bundle.partial?.services : undefined).toEqual(expected);
  });

  test('has the same version again, whatever the node had before', () => {
    const services = { ...after, 'shop/cart': { '10.96.0.1': ['endpoint 10.244.7.7 . 9999'] } };
    const first = put(services);
    const second =
      'state' in first
        ? leaveOut({ version: 'c'.repeat(16), state: stateOf(services) }, generation(first.state), quarantine)
        : first;
    expect('version' in second && second.version).toBe('version' in first && first.version);
    expect('version' in first && first.version).toMatch(/^[0-9a-f]{16}$/);
  });

  test('is no longer quarantined once its version is confirmed', () => {
    const state = stateOf({ 'shop/cart': { '10.96.0.1': ['endpoint 10.244.7.7 . 9999'] } });
    expect(quarantinedAfter(quarantine, [], { version: 'x', state })).toEqual([]);
    expect(quarantinedAfter(quarantine, [], active)).toEqual(quarantine);
    expect(quarantinedAfter(quarantine, quarantine, active)).toEqual(quarantine);
  });
});

test('a Service whose endpoints alone differ is quarantined with these endpoints', () => {
  const decision = decide(stateOf(after));
  const [one] = decision.kind === 'partial' ? decision.quarantine : [];
  expect(one?.version).toBe(versionsOf('shop/cart', stateOf(after)).exact);
});
