import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import { expect, test } from 'vitest';
import { ListedSource, Servers } from './servers.ts';
import type { Source } from './source.ts';

const urls = ['https://one.example.com', 'https://two.example.com', 'https://three.example.com'];
const away = (url: string): RegistryFailure => new RegistryFailure('REGISTRY_UNREACHABLE', `no ${url}`, 'Wait');

/** One server: its `look` finds its URL, or fails. */
const server = (url: string, failure?: Error): Source => ({
  name: url,
  bytes: 10,
  look: () => (failure ? Promise.reject(failure) : Promise.resolve(url)),
  open: async () => ({ top: new Map([['from', url]]), read: () => [] }),
});

test('the first server that answers is used, and is asked first the next time', async () => {
  const servers = new Servers(urls);
  const asked: string[] = [];
  const source = (): ListedSource =>
    new ListedSource(
      servers,
      'production',
      (url) => (asked.push(url), server(url, url === urls[0] ? away(url) : undefined)),
      60,
    );
  const first = source();
  expect(first.name).toBe(`${urls.join(', ')}:production`);
  expect(await first.look()).toBe(urls[1]);
  expect((await first.open(async () => '')).top.get('from')).toBe(urls[1]);
  expect(first.bytes).toBe(20);
  await source().look();
  expect(asked).toEqual([urls[0], urls[1], urls[1]]);
});

test('where none answers, the failure of the first one counts', async () => {
  const source = new ListedSource(new Servers(urls), 'production', (url) => server(url, away(url)), 60);
  await expect(source.look()).rejects.toThrow(`no ${urls[0]}`);
  expect(source.bytes).toBe(30);
});

test('the seconds of an attempt are those of all servers together', async () => {
  const seconds: number[] = [];
  const source = new ListedSource(
    new Servers(urls),
    'production',
    (url, secondsMax) => {
      seconds.push(secondsMax);
      const late = new Promise<string>((_resolve, reject) => setTimeout(() => reject(away(url)), 1_100));
      return { ...server(url), look: () => late };
    },
    2,
  );
  await expect(source.look()).rejects.toThrow('no ');
  expect(seconds).toEqual([2, 1]);
});

test('a failure that is not of a server ends the attempt', async () => {
  const source = new ListedSource(new Servers(urls), 'production', (url) => server(url, new TypeError('defect')), 60);
  await expect(source.look()).rejects.toThrow('defect');
  expect(source.bytes).toBe(10);
});
