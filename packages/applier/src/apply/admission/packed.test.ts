import { fileDigest, SourceFiles } from '@sluice/bundle';
import { differing, type NftState } from '@sluice/netfilter';
import { expect, test, vi } from 'vitest';
import { nftBundle, nftServices } from '../../../../bundle/src/virtual/nft.fixture.ts';
import { PackedText, packSome } from '../../inbox/packed.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { admit, AdmitMemory } from './admit.ts';
import { sampleFacts } from '../../testing/node-facts.fixture.ts';

const facts = { ...sampleFacts, tools: {}, addresses: { ipv4: ['127.0.0.1', '192.0.2.11'], ipv6: ['fd00::11'] } };
const options = { node: 'node-a', allowPartial: false, layout: 'tree' } as const;

/** Bundles one after another, as the daemon admits them: unchanged files are the same objects, and all is packed between two. */
class Node {
  readonly #memory = new AdmitMemory();
  #sources: ReadonlyMap<string, PackedText> = new Map();
  active: NodeState | undefined;

  admit(services: Readonly<Record<string, string>>): NftState {
    const before = this.#sources;
    this.#sources = new Map(
      [...nftBundle(services)].map(([path, text]) => {
        const [digest, known] = [fileDigest(text), before.get(path)];
        return [path, known?.key === digest ? known : new PackedText(Buffer.from(text), digest)];
      }),
    );
    while (packSome());
    const context = this.active ? { active: this.active } : {};
    const admitted = admit(new SourceFiles(this.#sources), options, facts, this.#memory, context);
    if ('problems' in admitted) throw new Error(JSON.stringify(admitted.problems));
    this.active = admitted.state;
    return admitted.state.nft as NftState;
  }
}

/** Of the cluster, the profile and the node: they are read each time. */
const yamlFiles = 3;

const moved = {
  ...nftServices,
  'shop/cart': (nftServices['shop/cart'] ?? '').replaceAll('10.244.1.5', '10.244.1.6'),
};
const { 'shop/empty': _empty, ...fewer } = nftServices;

test.each([
  ['nothing changed', nftServices, [], 0],
  ['an endpoint moved', moved, ['10.96.0.10 . tcp . 80'], 1],
  ['a Service left', fewer, ['10.96.0.40 . tcp . 80'], 0],
] as const)(
  '%s: what did not change keeps its identity, and only the change differs',
  (_title, services, keys, files) => {
    const node = new Node();
    const before = node.admit(nftServices);
    const read = vi.spyOn(PackedText.prototype, 'text', 'get');
    const after = node.admit(services);
    const texts = read.mock.calls.length;
    read.mockRestore();
    expect(differing(before.frontends, after.frontends)).toEqual(keys);
    expect(new Map(after.frontends)).toEqual(new Map(new Node().admit(services).frontends));
    // Of a file that changed the new text alone.
    expect(texts).toBe(yamlFiles + files);
  },
);
