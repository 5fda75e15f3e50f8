import { ipvsContract } from '../../../../../test/vm/ipvs.contract.ts';
import { FakeIpvs } from './ipvs-fake.fixture.ts';

ipvsContract('fake', async () => new FakeIpvs());
