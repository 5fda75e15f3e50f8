import { expect, test } from 'vitest';
import { activityOf, listenerOf, nftSockets } from './netlink-sockets.ts';

const text = `sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
00000000411de8d5 12  23681      00000000 0        0        0     2        0        87917   
00000000318a6ae9 12  2588053699 00000040 209408   0        0     2        1938     87918   
00000000d11bf173 12  2206299394 00000060 1664     0        0     2        0        88607   
000000004d03e31e 9   23680      00000040 7        0        0     2        0        88606   
`;

test('reads the sockets that listen for changes of nf_tables', () => {
  expect([...nftSockets(text)]).toEqual([
    ['87918', { unreadBytes: 209_408, dropped: 1_938 }],
    ['88607', { unreadBytes: 1_664, dropped: 0 }],
  ]);
  expect([...nftSockets('')]).toEqual([]);
  expect([...nftSockets('12 12 12\n\n')]).toEqual([]);
});

test('knows a process that runs, one that has ended, and one that does not listen', () => {
  expect(activityOf(process.pid)).toBe('runs');
  expect(activityOf(2 ** 22 + 1)).toBe('ended');
  expect(listenerOf(process.pid)).toBeUndefined();
  expect(listenerOf(2 ** 22 + 1)).toBeUndefined();
});
