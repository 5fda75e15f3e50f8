// @module-tag quick
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { emptyNft, parseAddressAndPort, type ReachedFrontend, type Services } from '@sluice/netfilter';
import { expect, onTestFinished, test } from 'vitest';
import type { Generation } from '../../ports/journal.ts';
import { StatusPort } from './status-port.ts';
import { type Doubt, judgeVip, type VipFacts, Vips } from './vip.ts';
import { VipFiles } from './vip-files.ts';

const served: ReachedFrontend = { protocol: 'tcp', port: 80, service: 'shop/web:http', policy: 'Local', endpoints: 1 };

/** Services that have these frontends at each address. */
const having = (...frontends: readonly ReachedFrontend[]): Pick<Services, 'at'> => ({ at: () => frontends });

const good: VipFacts = {
  isDraining: false,
  alarm: undefined,
  doubt: undefined,
  states: [having(served)],
  leaving: new Set(),
  taken: new Set(),
  passes: true,
};
const codeOf = (facts: Partial<VipFacts>, query = '203.0.113.9:80'): string =>
  judgeVip(parseAddressAndPort(query)!, { ...good, ...facts }).code;

test.each<readonly [string, Partial<VipFacts>, string]>([
  ['a frontend with an endpoint', {}, 'SERVED'],
  ['a drained node', { isDraining: true }, 'NODE_DRAINS'],
  ['an open alarm', { alarm: 'KERNEL' }, 'ALARM'],
  ['rules that another program changed', { doubt: 'changed' }, 'RULES_CHANGED'],
  ['rules that were not seen lately', { doubt: 'unseen' }, 'RULES_UNSEEN'],
  ['no generation', { states: [] }, 'NO_FRONTEND'],
  ['no frontend', { states: [having()] }, 'NO_FRONTEND'],
  ['a frontend of a release on probation alone', { states: [having(), having(served)] }, 'NO_FRONTEND'],
  ['a frontend that a release on probation lacks', { states: [having(served), having()] }, 'NO_FRONTEND'],
  ['no endpoint', { states: [having({ ...served, endpoints: 0 })] }, 'NO_ENDPOINT'],
  ['no endpoint on probation', { states: [having(served), having({ ...served, endpoints: 0 })] }, 'NO_ENDPOINT'],
  ['a last endpoint that is withdrawn', { leaving: new Set(['ipv4 tcp 203.0.113.9 80']) }, 'NO_ENDPOINT'],
  ['that of another port', { leaving: new Set(['ipv4 tcp 203.0.113.9 81']) }, 'SERVED'],
  ['a foreign rule that takes its packets', { taken: new Set(['shop/web:http']) }, 'FOREIGN_RULE_FIRST'],
  ['a foreign rule that takes those of another Service', { taken: new Set(['shop/cart:http']) }, 'SERVED'],
  ['a probe that fails', { passes: false }, 'PROBE_FAILS'],
  ['a probe without a verdict', { passes: undefined }, 'PROBE_UNKNOWN'],
])('%s', (_title, facts, code) => {
  expect(codeOf(facts)).toBe(code);
});

test('an address without a port is served where each of its frontends is', () => {
  const dns: ReachedFrontend = { ...served, protocol: 'udp', port: 53 };
  expect(codeOf({ states: [having(served, dns)] }, '203.0.113.9')).toBe('SERVED');
  expect(codeOf({ states: [having(served, { ...dns, endpoints: 0 })] }, '203.0.113.9')).toBe('NO_ENDPOINT');
  expect(codeOf({ states: [having(served, { ...dns, endpoints: 0 })] })).toBe('SERVED');
});

test('an answer tells no name of a Service', () => {
  expect(JSON.stringify(judgeVip({ address: '203.0.113.9', port: 80 }, good))).not.toContain('shop');
});

test.each([
  ['203.0.113.9', { address: '203.0.113.9', port: undefined }],
  ['203.0.113.9:80', { address: '203.0.113.9', port: 80 }],
  ['2001:db8::9', { address: '2001:db8::9', port: undefined }],
  ['[2001:db8::9]:443', { address: '2001:db8::9', port: 443 }],
])('reads %s', (text, expected) => {
  expect(parseAddressAndPort(text)).toEqual(expected);
});

test.each([
  '',
  '203.0.113',
  '203.0.113.09',
  '203.0.113.9:',
  '203.0.113.9:0',
  '203.0.113.9:080',
  '203.0.113.9:65536',
  '203.0.113.9:80:81',
  '[203.0.113.9]:80',
  '[2001:db8::9]',
  '2001:DB8::9',
  '2001:db8:0::9',
  '::ffff:203.0.113.9',
  'web.example',
  '203.0.113.9/32',
  '../status',
  '%32',
])('refuses %s', (text) => {
  expect(parseAddressAndPort(text)).toBeUndefined();
});

const generation: Generation = {
  number: 1,
  revision: 0,
  version: 'v1',
  state: {
    families: {},
    sysctls: new Map(),
    nft: {
      ...emptyNft,
      frontends: new Map([
        ['203.0.113.9 . tcp . 80', ['outside cluster', 'endpoint 10.244.1.5 . 8080']],
        ['2001:db8::9 . tcp . 80', ['outside cluster', 'none refuse']],
      ]),
    },
  },
};

/** Answers over HTTP. @returns asks a path: status, type and body; and who asked */
async function serve(doubt: () => Doubt) {
  const asked: string[] = [];
  const vips = new Vips({
    journal: { active: generation, undecided: undefined },
    alarm: () => undefined,
    drain: { now: undefined, answers: (address) => void asked.push(address) },
    passes: () => true,
  });
  vips.watches(doubt);
  const port = new StatusPort('127.0.0.1:0', {
    answer: (request, response) => {
      if (!vips.answer(request, response)) response.writeHead(404).end();
    },
    failed: () => undefined,
  });
  await port.refresh();
  onTestFinished(() => port.close());
  const ask = (path: string, method = 'GET', accept = '*/*'): Promise<string> =>
    new Promise((resolve, reject) => {
      const { number } = port;
      get({ host: '127.0.0.1', port: number, path, method, headers: { accept }, agent: false }, (response) => {
        let body = '';
        response.on('data', (part) => (body += String(part)));
        response.on('end', () =>
          resolve(`${response.statusCode} ${response.headers['content-type'] ?? ''} ${body.trim()}`),
        );
      }).on('error', reject);
    });
  return { ask, asked };
}

test('answers one line, or JSON', async () => {
  let doubt: Doubt;
  const { ask, asked } = await serve(() => doubt);
  expect(await ask('/vip/203.0.113.9:80')).toBe('200 text/plain SERVED: served');
  expect(await ask('/vip/[2001:db8::9]:80')).toBe('503 text/plain NO_ENDPOINT: tcp 80 has no endpoint');
  expect(await ask('/vip/203.0.113.9:80', 'GET', 'application/json')).toBe(
    '200 application/json {"frontend":"203.0.113.9:80","code":"SERVED","reason":"served","frontends":[{"protocol":"tcp","port":80,"policy":"Cluster","endpoints":1}]}',
  );
  doubt = 'changed';
  expect(await ask('/vip/203.0.113.9')).toBe('503 text/plain RULES_CHANGED: another program changed the rules');
  expect(asked).toHaveLength(4);
});

test('refuses other methods and other spellings, which count as no client of a load balancer', async () => {
  const { ask, asked } = await serve(() => undefined);
  expect(await ask('/vip/203.0.113.9:80', 'POST')).toMatch(/^405 /);
  expect(await ask('/vip/203.0.113.9:80?x')).toMatch(/^400 text\/plain not ADDRESS or ADDRESS:PORT/);
  expect(await ask('/vip/')).toMatch(/^400 /);
  expect(await ask('/vip')).toMatch(/^404 /);
  expect(asked).toEqual([]);
});

/** Files of one frontend, in a directory of their own. */
function files(codes: () => string): {
  readonly directory: string;
  readonly files: VipFiles;
  readonly failures: unknown[];
} {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-vip-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const failures: unknown[] = [];
  const parts = {
    frontends: ['203.0.113.9:80'],
    codeOf: codes,
    uptime: () => 1234.5,
    process: '7 pid:[1]',
    failed: (error: unknown) => void failures.push(error),
  };
  return { directory, files: new VipFiles({ ...parts, directory: join(directory, 'vip') }), failures };
}

test('a file holds for two seconds while the frontend is served, and not at all otherwise', () => {
  let code = 'SERVED';
  const { directory, files: written } = files(() => code);
  const path = join(directory, 'vip/203.0.113.9:80');
  written.open();
  expect(readFileSync(path, 'utf8')).toBe('123650 SERVED 7 pid:[1]\n');
  expect([statSync(path).mode & 0o777, statSync(join(directory, 'vip')).mode & 0o777]).toEqual([0o644, 0o755]);
  code = 'NO_ENDPOINT';
  written.write();
  expect(readFileSync(path, 'utf8')).toBe('0 NO_ENDPOINT 7 pid:[1]\n');
  written.close();
  expect(readdirSync(join(directory, 'vip'))).toEqual([]);
});

test('a directory that cannot be made is told once, and made later', () => {
  const { directory, files: written, failures } = files(() => 'SERVED');
  writeFileSync(join(directory, 'vip'), '');
  written.write();
  written.write();
  expect(failures).toHaveLength(1);
  rmSync(join(directory, 'vip'));
  written.write();
  expect(readdirSync(join(directory, 'vip'))).toEqual(['203.0.113.9:80']);
});
