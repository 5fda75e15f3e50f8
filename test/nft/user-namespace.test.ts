// @module-tag test
import { execaSync } from 'execa';
import { beforeEach, describe, expect, test } from 'vitest';
import { frontendLines, type NftState, printNft } from '@sluice/netfilter';
import { loadOf } from '../../packages/applier/src/kernel/scratch/load.ts';
import { rehearsalSample } from '../../packages/applier/src/apply/transaction/rehearsal-sample.ts';
import { needKernel } from '../netns/privileges.ts';
import { nftOf, nftVersions } from './newer.ts';

/**
 * nft hands a transaction over in one message. Root of the node may have a socket buffer of any size, root of a user namespace may not
 * (SO_SNDBUFFORCE needs CAP_NET_ADMIN in the initial one), so that a large table cannot be loaded there. A rehearsal can.
 */

beforeEach(needKernel);

const services = 4_000;

const large: NftState = {
  settings: ['table 3 address'],
  frontends: new Map(
    Array.from({ length: services }, (_, n) => {
      const endpoints = Array.from({ length: 5 }, (_unused, at) => `10.${128 + at}.${n >> 8}.${n & 255} . 8080`);
      const lines = frontendLines({ isClusterIP: true, ranges: [], endpoints, local: [] });
      return [`10.96.${n >> 8}.${n & 255} . tcp . 80`, lines] as const;
    }),
  ),
};

/** Nft 1.0.6 refuses it, nft 1.1.3 loads it. */
const refusedWhole = /^(?:.*Message too long\n?)?$/;

/** What a rehearsal of the table loads, in a unit or in a namespace. */
const rehearsed = loadOf(rehearsalSample({ families: {}, sysctls: new Map(), nft: large }), 'nft').nft;

describe.each(nftVersions)('the %s nft', (version) => {
  const found = nftOf(version);
  beforeEach((context) => {
    if ('lack' in found) context.skip(found.lack);
  });

  test.each<[title: string, text: string, namespaces: readonly string[], error: RegExp]>([
    ['loads a large table as root of the node', printNft(large), ['--net'], /^$/],
    ['loads or refuses a large table whole in a user namespace', printNft(large), ['--net', '--user'], refusedWhole],
    ['loads what a rehearsal of it loads in a user namespace', rehearsed, ['--net', '--user'], /^$/],
  ])('%s', (_title, input, namespaces, error) => {
    const { path } = found as { path: string };
    const asRoot = namespaces.includes('--user') ? ['--map-root-user'] : [];
    const { stderr } = execaSync('unshare', [...namespaces, ...asRoot, path, '-f', '-'], { input, reject: false });
    expect(stderr).toMatch(error);
  });
});
