import { expect, test } from 'vitest';
import { type FamilySettings, wantedFamilies } from './request.ts';
import type { SluiceConfig } from '../model/config.ts';

type Cluster = Pick<SluiceConfig, 'serviceCIDRs' | 'primaryFamily'>;
const single: Cluster = { serviceCIDRs: { ipv4: ['10.96.0.0/12'] }, primaryFamily: 'ipv4' };
const dual: Cluster = { serviceCIDRs: { ipv4: ['10.96.0.0/12'], ipv6: ['fd00::/108'] }, primaryFamily: 'ipv4' };
const dualV6: Cluster = { ...dual, primaryFamily: 'ipv6' };

test.each<[string, Partial<FamilySettings>, Cluster, string]>([
  ['nothing said: the primary family', {}, dual, 'ipv4'],
  ["nothing said: the cluster's order counts", {}, dualV6, 'ipv6'],
  ['SingleStack with a family', { ipFamilyPolicy: 'SingleStack', ipFamilies: ['ipv6'] }, dual, 'ipv6'],
  ['PreferDualStack gets both', { ipFamilyPolicy: 'PreferDualStack' }, dualV6, 'ipv6 ipv4'],
  [
    'PreferDualStack keeps the order of ipFamilies',
    { ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['ipv6'] },
    dual,
    'ipv6 ipv4',
  ],
  ['PreferDualStack takes one where there is one', { ipFamilyPolicy: 'PreferDualStack' }, single, 'ipv4'],
  ['RequireDualStack gets both', { ipFamilyPolicy: 'RequireDualStack' }, dual, 'ipv4 ipv6'],
  ['RequireDualStack gets nothing where there is one', { ipFamilyPolicy: 'RequireDualStack' }, single, ''],
  ['two families without a policy mean both', { ipFamilies: ['ipv6', 'ipv4'] }, dual, 'ipv6 ipv4'],
  [
    'an address decides before ipFamilies',
    { ipFamilyPolicy: 'PreferDualStack', ofClusterIPs: ['ipv6'], ipFamilies: ['ipv4'] },
    dual,
    'ipv6 ipv4',
  ],
  ['two addresses are kept although the config has one range', { ofClusterIPs: ['ipv4', 'ipv6'] }, single, 'ipv4 ipv6'],
])('%s', (_title, wish, cluster, expected) => {
  expect(wantedFamilies({ ipFamilies: [], ofClusterIPs: [], ...wish }, cluster).join(' ')).toBe(expected);
});
