import type { Family } from '@sluice/netfilter';
import type { RuleFile, Section } from '@sluice/bundle';
import type { Profile } from '../model/config.ts';
import { withoutExternalIPs } from '../model/external-ips.ts';
import type { PortOfFamily, Service, ServicePort } from '../model/model.ts';
import { selectForFleet } from '../select/fleet.ts';
import type { NodeFleet } from '../select/guards.ts';
import { chainRules, chainsOf } from './chains.ts';
import { detectorOf } from './detector.ts';
import { headerOf } from './header.ts';
import type { ServiceChainNames } from '../model/chain-names.ts';
import type { CompiledPort } from './port.ts';
import { frontendRules } from './frontends.ts';

/** The settings of a profile on which rules of Services depend; the rest is in base files and variables. */
export interface ServiceOptions {
  readonly externalIPs: boolean;
  readonly masqueradeAll: boolean;
  readonly detectLocalMode: Profile['detectLocalMode'];
}

/** The context in which all Services of a bundle are compiled. */
export interface CompileContext {
  readonly names: ServiceChainNames;
  readonly fleet: NodeFleet;
}

/**
 * The rules that kube-proxy writes for one Service in one family, for all nodes at once.
 * @returns undefined when the Service has no address of this family
 */
export function compileService(
  whole: Service,
  family: Family,
  options: ServiceOptions,
  context: CompileContext,
): RuleFile | undefined {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const compiled = service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [compilePort(port, here, options, context)] : [];
  });
  if (compiled.length === 0) return undefined;
  const frontends = compiled.map(frontendRules);
  const filter: Section = { table: 'filter', chains: [], rules: frontends.flatMap((rules) => rules.filter) };
  const nat: Section = {
    table: 'nat',
    chains: compiled.flatMap(chainsOf),
    rules: compiled.flatMap((port, index) => [...frontends[index]!.nat, ...chainRules(port)]),
  };
  const sections = [filter, nat].filter((section) => section.rules.length > 0);
  return { header: headerOf(service, family), sections };
}

function compilePort(
  port: ServicePort,
  here: PortOfFamily,
  options: ServiceOptions,
  { names, fleet }: CompileContext,
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
