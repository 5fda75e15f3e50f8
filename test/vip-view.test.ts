import { expect, test } from 'vitest';
import { answersOf, endpoint, type Input } from './matrix/cluster.ts';
import { columns } from './matrix/columns.ts';

/** What `/vip` knows of a frontend, in each column, beside the ends of a packet that comes from outside. */

const to = '203.0.113.9:80/tcp';

const service = (spec: Readonly<Record<string, string>>): Input => ({
  service: {
    spec: { type: 'LoadBalancer', ...spec },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.9' }] } },
  },
});
const local = service({ externalTrafficPolicy: 'Local' });
const slice = (...names: readonly ('a' | 'b' | 'c')[]): Input => ({
  slice: { endpoints: names.map((name) => endpoint(name)) },
});

const cases = [
  ['of policy Cluster counts all endpoints', [service({})], 2],
  ['of policy Cluster counts those of other nodes', [service({}), slice('b')], 1],
  ['of policy Local counts those of this node', [local], 1],
  ['of policy Local counts none of other nodes', [local, slice('b', 'c')], 0],
  ['without endpoints counts none', [service({}), slice()], 0],
  ['of policy Local without endpoints counts none', [local, slice()], 0],
] as const;

for (const column of columns)
  test.each(cases)(`${column.name}: a frontend %s`, (_title, inputs, endpoints) => {
    const answer = answersOf(inputs, column);
    const ends = answer({ from: 'outside', to });
    const served = ends.split(' | ').filter((end) => /(?:^| )(?:[abc]|[\d.]+:8080)$/.test(end));
    expect(answer({ reached: to }).split(' ')[1]).toBe(String(endpoints));
    // kube-proxy's virtual servers have the endpoints of other nodes where none is here; their answers do not come back.
    expect(column.mode === 'ipvs' && endpoints === 0 ? 0 : served.length).toBe(endpoints);
  });

for (const column of columns)
  test(`${column.name}: no other port and no other address is a frontend`, () => {
    const answer = answersOf([local], column);
    expect(answer({ reached: '203.0.113.9:81/tcp' })).toBe('no frontend');
    expect(answer({ reached: '203.0.113.9:80/udp' })).toBe('no frontend');
    expect(answer({ reached: '203.0.113.8:80/tcp' })).toBe('no frontend');
    expect(answer({ reached: '10.96.0.10:80/tcp' })).toBe('Cluster 2');
    expect(answer({ reached: to })).toBe('Local 1');
  });
