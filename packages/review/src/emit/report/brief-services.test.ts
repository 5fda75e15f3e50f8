import { expect, test } from 'vitest';
import { boundServices, readBrief, wholeMaxima } from './brief-services.ts';
import type { PageEndpoint, PageService } from './data.ts';

const endpoint = (at: number, fate: PageEndpoint['fate'] = 'same'): PageEndpoint => ({
  text: `10.244.1.${at}:8080`,
  port: '80/TCP',
  fate,
  after: 0.1,
});
const service = (name: string, endpoints: readonly PageEndpoint[] = []): PageService => ({
  name,
  fate: 'changed',
  severity: 'moves',
  frontends: [],
  endpoints,
  effects: [],
  facts: [],
});

test('the worst Services are whole, the rest are lines', () => {
  const all = ['a/a', 'b/b', 'c/c'].map((name) => service(name));
  const { services, brief } = boundServices(all, { characters: 250, endpoints: 10 });
  expect(services.map(({ name }) => name)).toEqual(['a/a', 'b/b']);
  expect(brief.map(readBrief)).toMatchObject([{ name: 'c/c', fate: 'changed', severity: 'moves', cut: 'all' }]);
});

test('of many endpoints those that leave or come are kept', () => {
  const many = [...Array.from({ length: 50 }, (_, at) => endpoint(at)), endpoint(98, 'added'), endpoint(99, 'removed')];
  const [bounded] = boundServices([service('a/a', many)], { characters: 100_000, endpoints: 10 }).services;
  expect(bounded?.cut).toBe(42);
  expect(bounded?.endpoints.slice(0, 3).map(({ fate }) => fate)).toEqual(['removed', 'added', 'same']);
});

test('10,000 changed Services of a thousand endpoints stay within the room of a page', () => {
  const many = Array.from({ length: 1_001 }, (_, at) => endpoint(at));
  const { services, brief } = boundServices(Array.from({ length: 10_000 }, (_, at) => service(`ns/s-${at}`, many)));
  expect(services.length + brief.length).toBe(10_000);
  expect(JSON.stringify({ services, brief }).length).toBeLessThan(wholeMaxima.characters + 400_000);
});
