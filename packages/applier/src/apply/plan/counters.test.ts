// @module-tag quick
import { expect, test } from 'vitest';
import { withoutCounters } from './ownership.ts';

test('rules of kube-proxy lose the match that counts, and nothing else', () => {
  const drop = '-A KUBE-FORWARD -m conntrack --ctstate INVALID';
  const accept = '-A KUBE-FORWARD -m comment --comment "-m" -m mark --mark 0x4000/0x4000 -j ACCEPT';
  const chains = new Map([
    ['KUBE-FORWARD', [`${drop} -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP`, accept]],
    ['KUBE-SERVICES', []],
  ]);
  const empty = { chains: new Map<string, readonly string[]>(), jumps: [] };
  const jumps = ['-A FORWARD -j KUBE-FORWARD'];
  const state = withoutCounters({ families: { ipv4: { filter: { chains, jumps }, nat: empty } } });
  const filter = state.families.ipv4?.filter;
  expect([...(filter?.chains ?? [])]).toEqual([
    ['KUBE-FORWARD', [`${drop} -j DROP`, accept]],
    ['KUBE-SERVICES', []],
  ]);
  expect(filter?.jumps).toEqual(jumps);
  expect(Object.keys(state.families)).toEqual(['ipv4']);
});
