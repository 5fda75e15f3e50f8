// @module-tag quick
import { expect, test } from 'vitest';
import { reach } from './live.ts';

test('tells of a UDP endpoint to which the kernel refuses to connect', async () => {
  // A broadcast address, without the option for it: EACCES, and no packet.
  expect(await reach({ address: '255.255.255.255', port: 9, protocol: 'udp' })).toBe('unreachable');
});
