import type { Family } from '@sluice/netfilter';
import type { Path } from '../model/kube.ts';
import { checkCidr, checkRoutable, familyOf, familyWord } from './addresses.ts';
import { report, pathText, type FieldSpot, textIn, textsIn, wordIn } from './fields.ts';
import type { FamilyPolicy, ReadService } from './read-service.ts';
import type { ServiceType } from '../model/model.ts';
import { quote } from './text.ts';

type ClusterAddresses = Pick<ReadService, 'headless' | 'clusterIPs' | 'listsAll' | 'ipFamilies' | 'ipFamilyPolicy'>;

const policies: readonly FamilyPolicy[] = ['SingleStack', 'PreferDualStack', 'RequireDualStack'];

/** Reads clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy, which must agree (`ValidateServiceClusterIPsRelatedFields`). */
export function readClusterAddresses(spec: FieldSpot, type: ServiceType): ClusterAddresses {
  const first = textIn(spec, 'clusterIP') ?? '';
  const list = textsIn(spec, 'clusterIPs').filter((text) => text !== '');
  const ipFamilyPolicy = wordIn(spec, 'ipFamilyPolicy', policies, undefined);
  const ipFamilies = readFamilies(spec);
  const listsAll = list.length > 0;
  const headless = first === 'None' || (first === '' && list[0] === 'None');
  if (listsAll && first !== '' && first !== list[0]) report(spec, ['clusterIP'], disagree);
  if (ipFamilyPolicy === 'SingleStack' && (list.length > 1 || ipFamilies.length > 1))
    report(spec, ['ipFamilyPolicy'], twoOfSingle);
  if (headless) {
    if (type !== 'ClusterIP') report(spec, ['clusterIP'], headlessOfType(type));
    return { headless, clusterIPs: [], listsAll, ipFamilies, ipFamilyPolicy };
  }
  const texts = listsAll ? list : first === '' ? [] : [first];
  if (texts.length > 0 && type === 'ExternalName') report(spec, ['clusterIP'], addressOfExternalName);
  const clusterIPs: string[] = [];
  for (const [index, text] of texts.entries()) {
    const tail: Path = listsAll ? ['clusterIPs', index] : ['clusterIP'];
    const address = checkRoutable(spec, tail, text);
    if (address !== undefined && fits(spec, tail, address, clusterIPs, ipFamilies[index])) clusterIPs.push(address);
  }
  return { headless, clusterIPs, listsAll, ipFamilies, ipFamilyPolicy };
}

/** One address per family, and each of the family that `ipFamilies` has at its position. */
function fits(
  spec: FieldSpot,
  tail: Path,
  address: string,
  others: readonly string[],
  wanted: Family | undefined,
): boolean {
  const family = familyOf(address);
  if (wanted !== undefined && wanted !== family) {
    report(spec, tail, {
      code: 'ADDRESS_WRONG_FAMILY',
      message: `${tail.length === 1 ? 'clusterIP' : `clusterIPs[${tail[1]}]`} ${address} is ${familyWord[family]}, but ipFamilies[${tail[1] ?? 0}] is ${familyWord[wanted]}`,
      hint: 'List clusterIPs and ipFamilies in the same order',
    });
    return false;
  }
  if (others.some((other) => familyOf(other) === family)) {
    report(spec, tail, {
      code: 'ADDRESS_WRONG_FAMILY',
      message: `Cannot use ${address} as ${pathText(spec, tail)}: the Service already has an ${familyWord[family]} address`,
      hint: 'A Service has at most one ClusterIP of each family',
    });
    return false;
  }
  return true;
}

function readFamilies(spec: FieldSpot): readonly Family[] {
  const families: Family[] = [];
  for (const [index, word] of textsIn(spec, 'ipFamilies').entries()) {
    const family = word === 'IPv4' ? 'ipv4' : word === 'IPv6' ? 'ipv6' : undefined;
    if (family && !families.includes(family)) {
      families.push(family);
      continue;
    }
    report(spec, ['ipFamilies', index], {
      code: 'FIELD_VALUE',
      message: `Cannot read ${pathText(spec, ['ipFamilies', index])}: ${quote(word)} is ${family ? 'listed twice' : 'not a valid family'}`,
      hint: 'Write IPv4 and IPv6, each at most once',
    });
  }
  return families;
}

/** `externalIPs`. The API server refuses addresses that are local to each node (`ValidateNonSpecialIP`). */
export function readExternalIPs(spec: FieldSpot): readonly string[] {
  return textsIn(spec, 'externalIPs').flatMap((text, at) => checkRoutable(spec, ['externalIPs', at], text) ?? []);
}

/** `loadBalancerSourceRanges`; blanks around an entry are ignored, as in kube-proxy. */
export function readSourceRanges(spec: FieldSpot, type: ServiceType): readonly string[] {
  const ranges = textsIn(spec, 'loadBalancerSourceRanges').flatMap(
    (text, at) => checkCidr(spec, ['loadBalancerSourceRanges', at], text.trim()) ?? [],
  );
  if (ranges.length === 0 || type === 'LoadBalancer') return ranges;
  report(spec, ['loadBalancerSourceRanges'], {
    code: 'OBJECT_IGNORED',
    level: 'warning',
    message: `Cannot restrict a Service of type ${type}: source ranges protect load-balancer addresses only`,
    hint: 'Remove loadBalancerSourceRanges, or set the type to LoadBalancer',
  });
  return [];
}

const disagree = {
  code: 'FIELD_VALUE',
  message: 'Cannot read the ClusterIP: clusterIP and clusterIPs[0] differ',
  hint: 'Make them equal, or remove clusterIPs',
} as const;
const twoOfSingle = {
  code: 'FIELD_VALUE',
  message: 'Cannot use two families in a Service with ipFamilyPolicy SingleStack',
  hint: 'List one family, or set ipFamilyPolicy to PreferDualStack',
} as const;
const addressOfExternalName = {
  code: 'FIELD_VALUE',
  message: 'Cannot use a ClusterIP in an ExternalName Service',
  hint: 'Remove clusterIP, or change the type',
} as const;
const headlessOfType = (type: ServiceType) =>
  ({
    code: 'FIELD_VALUE',
    message: `Cannot make a Service of type ${type} headless`,
    hint: 'Remove clusterIP, or set the type to ClusterIP',
  }) as const;

/** The path of a family's ClusterIP in the manifest, for problems. */
export function clusterIPPath(service: ReadService, family: Family): Path {
  const index = service.clusterIPs.findIndex((address) => familyOf(address) === family);
  return service.listsAll && index >= 0 ? ['spec', 'clusterIPs', index] : ['spec', 'clusterIP'];
}
