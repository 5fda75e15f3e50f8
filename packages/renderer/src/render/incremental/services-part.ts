import type { SluiceConfig } from '../model/config.ts';
import { compilesSingly, serviceCompiler } from '../planes.ts';
import { nodesByName } from '../compile/service-files.ts';
import { servesExternalIPs } from '../model/external-ips.ts';
import type { Memo } from '../model/memo.ts';
import type { Model } from '../model/model.ts';
import { modelOf } from '../normalise.ts';
import { backingOf } from '../normalise/backing.ts';
import { serviceTooLarge } from '../normalise/service-size.ts';
import { type ServiceCandidate, viewOf } from '../normalise/views.ts';
import { profilesInUse } from '../model/profiles-in-use.ts';
import type { RenderBasis } from '../quarantine/with-quarantine.ts';
import { fleetOf } from '../select/guards.ts';
import { erasOf, servicesOf } from '../versions/eras.ts';
import type { ClusterIndex } from './cluster-index.ts';

/** Some Services of a bundle with their files. */
export interface ServicesPart {
  readonly model: Model;
  /** Path → text. */
  readonly files: ReadonlyMap<string, string>;
}

/**
 * The files of some Services, as a render of all would make them.
 * @param keys `namespace/name`; those of Services without rules are passed over
 * @param basis one of which `rendersSingly` is true
 */
export function renderServices(
  keys: Iterable<string>,
  index: ClusterIndex,
  { nodes, config }: RenderBasis,
  memo: Memo,
): ServicesPart {
  const candidates = [...keys].flatMap((key) => candidateOf(key, index) ?? []);
  const profiles = profilesInUse({ nodes }, config);
  const isOpen = servesExternalIPs({ nodes }, config);
  const model = modelOf(
    nodes,
    erasOf(profiles).map((era) => viewOf({ era, isOpen }, candidates, memo)),
  );
  const fleet = memo.of('fleet', nodes, [], () => fleetOf(nodes));
  const files = profiles.flatMap((profile) => {
    const filesOf = serviceCompiler(profile, { names: memo.names, fleet, nodes: nodesByName(nodes) }, memo);
    return servicesOf(model, profile).flatMap((service) => filesOf?.(service) ?? []);
  });
  return { model, files: new Map(files) };
}

/** The Service with its slices; undefined where it has no rules. */
function candidateOf(key: string, index: ClusterIndex): ServiceCandidate | undefined {
  const found = index.service(key);
  if (found === undefined || found.numbers.clusterIPs.length === 0 || found.service.ports.length === 0)
    return undefined;
  const layered = { services: new Map([[key, found.service]]), slices: index.slicesOf(key) };
  return { ...found, slices: backingOf(layered, []).get(key) ?? [] };
}

/** Whether a Service is too large together with its slices. */
export function isTooLarge(key: string, index: ClusterIndex): boolean {
  const found = index.service(key);
  return found !== undefined && serviceTooLarge(found.service, index.slicesOf(key)) !== undefined;
}

/** Whether Services can be rendered without the others, for every profile in use. */
export function rendersSingly({ nodes }: Pick<Model, 'nodes'>, config: SluiceConfig): boolean {
  return profilesInUse({ nodes }, config).every(compilesSingly);
}
