import { addressOfEndpoint, compareText, type Family } from '@sluice/netfilter';
import type { RuleFile } from '@sluice/bundle';
import type { AddressFacts, PortFacts, ServiceFacts } from './facts.ts';
import { type HeaderNotes, notesOf, placeOfEndpoint } from '../bundle/header.ts';
import { portsOf } from './rule-ports.ts';

/**
 * Reads the facts of a Service file.
 * @param service `shop/web`, from the file's path
 */
export function factsOf(service: string, family: Family, file: RuleFile): ServiceFacts {
  const notes = notesOf(file.header);
  const ports = portsOf(file, family).map(({ targets, ...port }): PortFacts => {
    const addresses = port.addresses.map(({ kind, text }) => ({
      kind: kind === 'unnamed' ? kindOf(text, notes) : kind,
      text,
    }));
    const isRestricting = targets.length > 0 && addresses.some(({ kind }) => kind === 'load-balancer');
    return {
      ...port,
      addresses,
      sourceRanges: isRestricting ? port.sourceRanges : notes.sourceRanges,
      internalPolicy: port.internalPolicy ?? notes.internalPolicy,
      externalPolicy: port.externalPolicy ?? notes.externalPolicy,
      endpoints: targets.toSorted(compareText).map((text) => ({ text, ...placeOfEndpoint(text, notes) })),
    };
  });
  return { service, family, ...(notes.type === undefined ? {} : { type: notes.type }), ports };
}

/** The kind of an address outside of the cluster. */
function kindOf(text: string, { loadBalancerAddresses }: HeaderNotes): AddressFacts['kind'] {
  return loadBalancerAddresses.includes(addressOfEndpoint(text)) ? 'load-balancer' : 'external';
}
