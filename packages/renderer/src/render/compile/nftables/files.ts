import { baseFile, serviceFile } from '@sluice/bundle';
import type { NftablesProfile, Profile, SluiceConfig } from '../../model/config.ts';
import type { Memo } from '../../model/memo.ts';
import type { Model } from '../../model/model.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { undetectedNodes } from '../undetected.ts';
import type { ServiceFiles, ServiceFilesContext } from '../service-files.ts';
import { nftBaseText, nftTableText } from './base.ts';
import { type NftServiceOptions, nftServiceText } from './service.ts';

/** The base files of a profile of mode nftables, as path and text. */
type NftBaseFiles = (profile: Profile, nftables: NftablesProfile) => readonly [path: string, text: string][];

export function nftBaseFiles(model: Model, config: SluiceConfig, fleet: NodeFleet): NftBaseFiles {
  return (profile, nftables) => {
    const base = {
      // Defaults may not be the networks of this cluster, and packets to them would be dropped.
      serviceCIDRs: config.named.serviceCIDRs ? config.serviceCIDRs : {},
      undetectedIn: (family: Profile['families'][number]) => undetectedNodes(profile, family, model, fleet),
    };
    const files: readonly [string, string][] = [
      [baseFile(profile.name, 'first', 'nft'), nftTableText(profile, nftables)],
      [baseFile(profile.name, 'last', 'nft'), nftBaseText(profile, nftables, base)],
    ];
    return files.filter(([, text]) => text !== '');
  };
}

/** The files of each Service for a profile of mode nftables, compiled once per set of options. */
export function nftServiceFiles(profile: Profile, { fleet, nodes }: ServiceFilesContext, memo: Memo): ServiceFiles {
  const options: NftServiceOptions = {
    externalIPs: profile.featureGates.AllowServiceExternalIPs,
    families: profile.families,
  };
  const key = `nft ${JSON.stringify(options)}`;
  return (service) => {
    const text = memo.of(key, service, [fleet], () => nftServiceText(service, options, { fleet, nodes }));
    return text === '' ? [] : [[serviceFile(profile.name, service.namespace, service.name, 'nft'), text]];
  };
}
