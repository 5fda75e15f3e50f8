import { expect, test } from 'vitest';
import { readServers } from './read-servers.ts';

test('treats virtual servers outside of the grammar as foreign, with their real servers', () => {
  const { servers, foreign } = readServers([
    '-A -t 10.96.0.10:80 -s rr',
    '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1',
    '-A -t 192.0.2.80:80 -s rr -p 600 -M 255.255.255.0',
    '-A -t 192.0.2.81:80 -s rr',
    '-a -t 192.0.2.81:80 -r 192.0.2.9:80 -g -w 1',
    '-A -u 192.0.2.82:53 -s rr -o',
    '-A -f 7 -s rr',
    '-a -f 7 -r 192.0.2.9:0 -g -w 1',
    '',
  ]);
  expect([...servers.keys()]).toEqual(['10.96.0.10:80/TCP']);
  expect([...foreign]).toEqual(['192.0.2.80:80/TCP', '192.0.2.81:80/TCP', '192.0.2.82:53/UDP']);
});
