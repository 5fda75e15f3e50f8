// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTier, randomOf, seed } from '@sluice/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { kubeProxy, minorsOfTier } from './binaries.ts';
import type { Built } from './build.ts';
import { clusterOf } from './clusters.ts';
import { differences, readSaved } from './compare.ts';
import { kubeProxyRules, sluiceRules } from './node.ts';

/** The real kube-proxy as judge: the same cluster, and the rules of both in a network namespace each. */

const clusters = atTier({ quick: 1, test: 2, all: 30, soak: 300 });
const services = 12;

describe.each(minorsOfTier)('kube-proxy %s', (minor) => {
  let binary: Built;
  beforeAll(async () => {
    binary = await kubeProxy(minor);
  }, 3_600_000);
  beforeEach((context) => {
    needKernel(context);
    needBackend(context, 'nft');
    if ('lack' in binary) context.skip(binary.lack);
  });

  test.for(Array.from({ length: clusters }, (_, index) => index))(
    'cluster %i: layout flat is chain for chain what kube-proxy loads in mode iptables',
    { timeout: 120_000 },
    async (index) => {
      const dir = mkdtempSync(join(tmpdir(), 'sluice-parity-'));
      try {
        const cluster = clusterOf(services, randomOf(seed + index));
        const path = 'path' in binary ? binary.path : '';
        const [theirs, ours] = [await kubeProxyRules(path, cluster, dir), await sluiceRules(cluster, dir)];
        expect(differences(readSaved(theirs.IPv4), readSaved(ours.IPv4))).toEqual([]);
        expect(differences(readSaved(theirs.IPv6), readSaved(ours.IPv6))).toEqual([]);
      } finally {
        rmSync(dir, { recursive: true, force: true });
      }
    },
  );
});
