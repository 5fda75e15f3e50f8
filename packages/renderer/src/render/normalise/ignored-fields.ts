import { type Problem, warning } from '@sluice/netfilter';
import type { Path } from '../model/kube.ts';
import type { Service } from '../model/model.ts';
import { familyOf, familyWord } from '../read/addresses.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice, SlicePart } from '../read/slice.ts';

/**
 * Fields that kube-proxy ignores silently: external and load-balancer addresses, source ranges and endpoints of a family in which the
 * Service has no ClusterIP (operations: dual stack).
 * @returns warnings
 */
export function ignoredFields(read: ReadService, service: Service, slices: readonly ReadSlice[]): Problem[] {
  const families = service.ports[0]?.families ?? {};
  const warn = (path: Path, message: string, hint: string): Problem =>
    warning('OBJECT_IGNORED', message, hint, { at: read.object.origin.place(path), object: `Service ${read.key}` });
  const lost = (text: string): boolean => families[familyOf(text)] === undefined;
  const reason = (text: string): string => `the Service has no ${familyWord[familyOf(text)]} ClusterIP`;
  const problems: Problem[] = [];
  for (const [index, text] of read.externalIPs.entries())
    if (lost(text))
      problems.push(
        warn(['spec', 'externalIPs', index], `Cannot serve external IP ${text}: ${reason(text)}`, dualStack),
      );
  for (const { address, index } of read.ingress)
    if (lost(address)) {
      const path = ['status', 'loadBalancer', 'ingress', index, 'ip'];
      problems.push(warn(path, `Cannot serve load-balancer address ${address}: ${reason(address)}`, dualStack));
    }
  for (const [index, text] of read.sourceRanges.entries())
    if (lost(text))
      problems.push(warn(rangePath(index), `Cannot use source range ${text}: ${reason(text)}`, 'Remove the range'));
  return [...problems, ...openBalancers(read, service, warn), ...lostEndpoints(read, service, slices)];
}

const dualStack = 'Make the Service dual stack (ipFamilyPolicy), or remove the address';

function rangePath(index: number): Path {
  return ['spec', 'loadBalancerSourceRanges', index];
}

type Warn = (path: Path, message: string, hint: string) => Problem;

/** Load-balancer addresses of a family without source ranges, while the other family has some. */
function openBalancers(read: ReadService, service: Service, warn: Warn): Problem[] {
  if (read.sourceRanges.length === 0) return [];
  return (['ipv4', 'ipv6'] as const).flatMap((family) => {
    const front = service.ports[0]?.families[family];
    const hasRange = read.sourceRanges.some((range) => familyOf(range) === family);
    const isOpen = front && front.loadBalancerIPs.length > 0 && !hasRange;
    if (!isOpen) return [];
    const message = `Cannot restrict ${front.loadBalancerIPs.join(', ')}: no source range is ${familyWord[family]}, so all sources are admitted`;
    return [warn(['spec', 'loadBalancerSourceRanges'], message, `Add an ${familyWord[family]} range`)];
  });
}

function lostEndpoints(read: ReadService, service: Service, slices: readonly ReadSlice[]): Problem[] {
  const families = service.ports[0]?.families;
  if (!families) return [];
  const isLost = (part: SlicePart): boolean => part.endpoints.length > 0 && families[part.family] === undefined;
  return slices.flatMap((slice) =>
    slice.parts
      .filter(isLost)
      .map((part) =>
        warning(
          'OBJECT_IGNORED',
          `Cannot use ${familyWord[part.family]} endpoints: Service ${read.key} has no ${familyWord[part.family]} ClusterIP`,
          'Make the Service dual stack (ipFamilyPolicy), or remove the endpoints',
          { at: slice.object.origin.place(part.path), object: `${slice.kind} ${slice.key}` },
        ),
      ),
  );
}
