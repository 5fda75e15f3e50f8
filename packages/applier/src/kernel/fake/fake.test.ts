import { switchContract } from '../../../../../test/netns/switch.contract.ts';
import { kernelContract } from '../../../../../test/netns/kernel.contract.ts';
import { FakeKernel } from './fake.fixture.ts';

kernelContract('fake', async () => {
  const kernel = new FakeKernel();
  return { kernel, foreign: async (family, text) => kernel.load(family, text) };
});

switchContract('fake', async () => {
  let nowMs = 0;
  return {
    kernel: new FakeKernel({ nowMs: () => nowMs }),
    passMs: (ms) => {
      nowMs += ms;
    },
  };
});
