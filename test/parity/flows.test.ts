// @module-tag quick
import { expect, test } from 'vitest';
import { Clients } from './flows.ts';
import type { Examiner } from './outcomes.ts';
import type { Question } from './questions.ts';
import type { Probe } from './wire.ts';

/** A client of a Service with affinity that asks two frontends, as nodes answer it before and after a change. */

const cluster: Question = {
  about: 'shop/web:http',
  frontend: 'cluster IP',
  from: 'outside',
  family: 'IPv4',
  via: 'eth0',
  target: '10.96.0.10',
  port: 80,
  protocol: 'tcp',
  sources: ['198.51.100.7'],
  stays: true,
};
const local: Question = { ...cluster, frontend: 'external IP', target: '198.51.100.1' };
const [remote, here, third] = ['10.244.2.5', '10.244.1.5', '10.244.1.6'];

/** What a test finds where the cluster IP gave the remote endpoint, and gives `now`, and another frontend the endpoint of this node. */
async function faults(sharesLists: boolean, other: Question, now: string): Promise<readonly string[]> {
  const answers = new Map([
    [cluster.target, remote],
    [other.target, here],
  ]);
  const outcomeOf = ({ source, target }: Probe) =>
    ({ kind: 'forward', via: 'eth0', source, target: answers.get(target), port: 8080, back: true }) as const;
  const examiner = {
    node: { send: async (probes: readonly Probe[]) => probes.map(outcomeOf), forgetConnections: async () => undefined },
    askWidely: async (questions: readonly Question[]) =>
      questions.map(() => new Map([remote, here, third].map((one) => [`eth0 ${one} 8080`, 1]))),
  } as unknown as Examiner;
  const clients = new Clients(examiner, sharesLists);
  await clients.remember([cluster, other]);
  answers.set(cluster.target, now);
  return (await clients.send([cluster, other], [], 0)).map(({ fault }) => fault);
}

const left = 'left an endpoint that stays';

test.each([
  ['which another frontend gave it, where lists belong to endpoints', true, local, here, []],
  ['which another frontend gave it, where they belong to frontends', false, local, here, [left]],
  ['which no frontend gave it', true, local, third, [left]],
  ['which another client got', true, { ...local, sources: ['198.51.100.8'] }, here, [left]],
  ['which another port of the Service gave it', true, { ...local, about: 'shop/web:dns' }, here, [left]],
])('a client moves to an endpoint %s', async (_title, sharesLists, other, now, expected) => {
  expect(await faults(sharesLists, other, now)).toEqual(expected);
});
