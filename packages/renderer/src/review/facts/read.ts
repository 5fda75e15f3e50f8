import { readPath, serviceFile } from '@sluice/bundle';
import type { BundleTool, Family } from '@sluice/netfilter';
import { rulesAt, serviceOf, type ViewedFiles } from '../bundle/files.ts';
import { families, hasLines, toolOf, tools } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';
import type { ServiceFacts } from './facts.ts';
import { nftFacts } from './of-frontends.ts';
import { factsOf } from './of-rules.ts';
import { virtualFacts, type VirtualTexts } from './of-servers.ts';

/** A Service in one family of one profile. */
export interface ServicePlace {
  readonly profile: string;
  /** `shop/web` */
  readonly service: string;
  readonly family: Family;
}

/** The families of which a file of a Service may have rules or virtual servers. */
export function familiesOf(tool: BundleTool): readonly Family[] {
  return hasLines(tool) ? families : tools.flatMap(([one, family]) => (one === tool ? family : []));
}

/**
 * The facts of a Service from one of its files, by family; an `.ipset` is read with the `.ipvs` beside it.
 * @throws ReviewStopped when nodes would refuse the file
 */
export function factsAt(view: ViewedFiles, path: string): readonly ServiceFacts[] {
  const what = readPath(path);
  if (what?.kind !== 'service' || what.tool === 'ipset') return [];
  const service = serviceOf(path);
  if (what.tool === 'nft') return families.map((family) => nftFacts(service, family, view.files.get(path) ?? ''));
  const texts = what.tool === 'ipvs' ? textsAt(view, path) : undefined;
  return familiesOf(what.tool).map((family) =>
    texts ? virtualFacts(service, family, texts) : factsOf(service, family, rulesAt(view, path)),
  );
}

/**
 * The facts of a Service in a profile and family.
 * @returns undefined when the Service has no file there, or, in modes ipvs and nftables, no port in the family
 * @throws ReviewStopped when nodes would refuse the file
 */
export function factsIn(view: BundleView, { profile, service, family }: ServicePlace): ServiceFacts | undefined {
  const [namespace = '', name = ''] = service.split('/');
  const mode = view.profiles.get(profile)?.mode;
  if (mode === 'ipvs' || mode === 'nftables') {
    const path = serviceFile(profile, namespace, name, mode === 'ipvs' ? 'ipvs' : 'nft');
    const facts =
      mode === 'ipvs'
        ? virtualFacts(service, family, textsAt(view, path))
        : nftFacts(service, family, view.files.get(path) ?? '');
    return facts.ports.length === 0 ? undefined : facts;
  }
  const path = serviceFile(profile, namespace, name, toolOf[family]);
  return view.files.has(path) ? factsOf(service, family, rulesAt(view, path)) : undefined;
}

function textsAt({ files }: ViewedFiles, path: string): VirtualTexts {
  return { ipvs: files.get(path), ipset: files.get(path.replace(/ipvs$/, 'ipset')) };
}
