import { nftContract } from '../../../../../test/netns/nftables.contract.ts';
import { FakeKernel } from './fake.fixture.ts';

nftContract('fake', async () => {
  let nowMs = 0;
  const kernel = new FakeKernel({ nowMs: () => nowMs });
  return { kernel, foreign: (text) => kernel.nft.load(text), passMs: (ms) => void (nowMs += ms), pairs: 200 };
});
