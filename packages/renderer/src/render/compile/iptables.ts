import type { Family, RuleFile, Section } from '@sluice/bundle';
import type { Profile } from '../config.ts';
import { withoutExternalIPs } from '../external-ips.ts';
import type { PortOfFamily, Service, ServicePort } from '../model.ts';
import { selectForFleet } from '../select/fleet.ts';
import type { Fleet } from '../select/guards.ts';
import { chainRules, chainsOf } from './chains.ts';
import { detectorOf } from './detector.ts';
import { headerOf } from './header.ts';
import type { ChainNames } from './names.ts';
import type { CompiledPort } from './port.ts';
import { portalRules } from './portals.ts';

/** What of a profile the rules of Services depend on; everything else is in the base files and in variables. */
export interface ServiceOptions {
  readonly externalIPs: boolean;
  readonly masqueradeAll: boolean;
  readonly detectLocalMode: Profile['detectLocalMode'];
}

/** What all Services of a bundle are compiled with. */
export interface Surroundings {
  readonly names: ChainNames;
  readonly fleet: Fleet;
}

/**
 * Everything that kube-proxy writes about one Service in one family, on every node at once.
 * @returns nothing when the Service has no address of this family
 */
export function compileService(
  whole: Service,
  family: Family,
  options: ServiceOptions,
  surroundings: Surroundings,
): RuleFile | undefined {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const compiled = service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [compilePort(port, here, options, surroundings)] : [];
  });
  if (compiled.length === 0) return undefined;
  const portals = compiled.map(portalRules);
  const filter: Section = { table: 'filter', chains: [], rules: portals.flatMap((portal) => portal.filter) };
  const nat: Section = {
    table: 'nat',
    chains: compiled.flatMap(chainsOf),
    rules: compiled.flatMap((port, index) => [...portals[index]!.nat, ...chainRules(port)]),
  };
  const sections = [filter, nat].filter((section) => section.rules.length > 0);
  return { header: headerOf(service, family), sections };
}

function compilePort(
  port: ServicePort,
  here: PortOfFamily,
  options: ServiceOptions,
  { names, fleet }: Surroundings,
): CompiledPort {
  const selection = selectForFleet(port, here, fleet);
  const chainOf = (text: string): string => names.endpoint(port.key, port.protocol, text);
  return {
    port,
    here,
    chains: names.port(port.key, port.protocol),
    endpointChains: new Map(selection.all.map(({ text }) => [text, chainOf(text)])),
    selection,
    masqueradeAll: options.masqueradeAll,
    detector: detectorOf(options.detectLocalMode),
  };
}
