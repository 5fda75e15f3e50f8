import { kernelContract } from '../../../../test/netns/kernel.contract.ts';
import { FakeKernel } from './fake.ts';

kernelContract('fake', async () => {
  const kernel = new FakeKernel();
  return { kernel, foreign: async (family, text) => kernel.load(family, text) };
});
