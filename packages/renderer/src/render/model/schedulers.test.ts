import { expect, test } from 'vitest';
import type { Service } from './model.ts';
import { portWith, serviceOf } from '../compile/sample.fixture.ts';
import { ipvsSchedulerOf, nftSchedulerOf } from './schedulers.ts';

const weights = [{ label: 'zone', value: 'a', weight: 3 }];
const service = (more: Partial<Service>, affinitySeconds?: number): Service => ({
  ...serviceOf([portWith({}, affinitySeconds === undefined ? {} : { affinitySeconds })]),
  ...more,
});

test.each<[string, Partial<Service>, string, string | undefined]>([
  ['none', {}, 'lc', undefined],
  ['none, with weights', { weights }, 'lc', undefined],
  ['random', { scheduler: 'random' }, 'rr', undefined],
  ['random, with weights', { scheduler: 'random', weights }, 'wrr', undefined],
  ['round-robin', { scheduler: 'round-robin' }, 'rr', 'round-robin'],
  ['round-robin, with weights', { scheduler: 'round-robin', weights }, 'wrr', 'round-robin'],
  ['source-hash', { scheduler: 'source-hash' }, 'sh', 'source-hash'],
  ['maglev', { scheduler: 'maglev' }, 'mh', 'maglev 1009'],
  ['maglev with another table', { scheduler: 'maglev', maglevSize: 251 }, 'mh', 'maglev 251'],
  ['one of mode ipvs', { scheduler: 'sed' }, 'sed', undefined],
])('%s is a scheduler of each mode', (_title, more, ipvs, nft) => {
  expect([ipvsSchedulerOf(service(more), 'lc'), nftSchedulerOf(service(more))]).toEqual([ipvs, nft]);
});

test('with session affinity mode nftables has no scheduler, and mode ipvs has', () => {
  const sticky = service({ scheduler: 'maglev' }, 600);
  expect([ipvsSchedulerOf(sticky, 'rr'), nftSchedulerOf(sticky)]).toEqual(['mh', undefined]);
});
