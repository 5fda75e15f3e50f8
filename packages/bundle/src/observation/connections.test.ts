import { expect, test } from 'vitest';
import { ConnectionCounter, connectionsIn } from './connections.ts';
import { observedDigest } from './digest.ts';
import type { ConnectionSummary } from './observation.ts';
import { printObservation } from './print.ts';
import { readObservation } from './read.ts';
import { observationOf, textsOf } from './saved-files.ts';

/** As conntrack 1.4.7 prints it. */
const table = `tcp      6 431999 ESTABLISHED src=10.244.1.7 dst=10.96.0.10 sport=40112 dport=80 src=10.244.2.5 dst=10.244.1.7 sport=8080 dport=40112 [ASSURED] mark=0 use=1
tcp      6 431998 ESTABLISHED src=198.51.100.7 dst=10.96.0.10 sport=40113 dport=80 packets=3 bytes=180 src=10.244.2.5 dst=192.0.2.11 sport=8080 dport=1025 packets=2 bytes=120 [ASSURED] mark=16384 use=1
tcp      6 58 TIME_WAIT src=10.244.1.7 dst=10.96.0.10 sport=40114 dport=80 src=10.244.2.5 dst=10.244.1.7 sport=8080 dport=40114 [ASSURED] mark=0 use=1
tcp      6 431999 ESTABLISHED src=10.244.1.7 dst=10.244.2.5 sport=40115 dport=8080 src=10.244.2.5 dst=10.244.1.7 sport=8080 dport=40115 [ASSURED] mark=0 use=1
udp      17 28 src=10.244.1.7 dst=10.96.0.2 sport=5353 dport=53 [UNREPLIED] src=10.244.2.9 dst=10.244.1.7 sport=5300 dport=5353 mark=0 use=1
tcp      6 431999 ESTABLISHED src=fd00:10::7 dst=fd00:96::a sport=40112 dport=80 src=fd00:10:0:0::1 dst=fd00:10::7 sport=8080 dport=40112 [ASSURED] mark=0 use=1
icmp     1 29 src=10.244.1.7 dst=10.96.0.10 type=8 code=0 id=1 src=10.96.0.10 dst=10.244.1.7 type=0 code=0 id=1 mark=0 use=1
`;

const summary: ConnectionSummary = {
  pairs: [
    { protocol: 'tcp', frontend: '10.96.0.10:80', endpoint: '10.244.2.5:8080', count: 2 },
    { protocol: 'tcp', frontend: '[fd00:96::a]:80', endpoint: '[fd00:10::1]:8080', count: 1 },
    { protocol: 'udp', frontend: '10.96.0.2:53', endpoint: '10.244.2.9:5300', count: 1 },
  ],
  left: 0,
};

test('established connections and flows of UDP are counted by frontend and endpoint, where a rule translated them', () => {
  expect(connectionsIn(table)).toEqual(summary);
});

test('the same, in parts that end anywhere', () => {
  for (const length of [1, 7, 100]) {
    const counter = new ConnectionCounter();
    for (let at = 0; at < table.length; at += length) counter.take(table.slice(at, at + length));
    expect(counter.end()).toEqual(summary);
  }
});

test('pairs behind the limit are counted as left', () => {
  const counter = new ConnectionCounter();
  for (let n = 0; n < 100_002; n++)
    counter.take(
      `udp 17 28 src=10.0.0.1 dst=10.96.${(n >> 8) & 255}.${n & 255} sport=1 dport=${53 + (n >> 16)} src=10.244.0.1 dst=10.0.0.1 sport=53 dport=1 use=1\n`,
    );
  const { pairs, left } = counter.end();
  expect([pairs.length, left]).toEqual([100_000, 2]);
});

test('a file has them, and its digest does not depend on them', () => {
  const identity = { node: 'node-a', tools: {} };
  const texts = textsOf(new Map([['ipset.txt', '']]));
  const [without, seen] = [observationOf(identity, texts), observationOf({ ...identity, connections: summary }, texts)];
  expect(observedDigest(seen)).toBe(observedDigest(without));
  const text = [...printObservation(seen)].join('');
  expect(readObservation('a.json', text)).toEqual(seen);
  expect(readObservation('a.json', text.replace('"count":2', '"count":-2'))).toMatchObject({
    message: 'Cannot read a.json: connections is not valid',
  });
});
