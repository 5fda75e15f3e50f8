import { baseFile, serviceFile } from '@sluice/bundle';
import type { NftablesProfile, Profile, SluiceConfig } from '../../config.ts';
import type { Memo } from '../../memo.ts';
import type { Model, Service } from '../../model.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { servicesOf } from '../../versions/eras.ts';
import { undetectedNodes } from '../undetected.ts';
import { nftBaseText, nftTableText } from './base.ts';
import { type NftServiceOptions, nftServiceText } from './service.ts';

/** The files of a profile of mode nftables except its document and its sysctls, as path and text. */
export type NftFiles = (profile: Profile, nftables: NftablesProfile) => readonly [path: string, text: string][];

/** Compiles Services once per set of options: most profiles of mode nftables have the same. */
export function nftCompiler(model: Model, config: SluiceConfig, fleet: NodeFleet, memo: Memo): NftFiles {
  return (profile, nftables) => {
    const options: NftServiceOptions = {
      externalIPs: profile.featureGates.AllowServiceExternalIPs,
      families: profile.families,
    };
    const key = `nft ${JSON.stringify(options)}`;
    const textOf = (service: Service): string =>
      memo.of(key, service, [fleet], () => nftServiceText(service, options, fleet));
    const base = {
      // Defaults may not be the networks of this cluster, and packets to them would be dropped.
      serviceCIDRs: config.named.serviceCIDRs ? config.serviceCIDRs : {},
      undetectedIn: (family: Profile['families'][number]) => undetectedNodes(profile, family, model, fleet),
    };
    const files: readonly [string, string][] = [
      [baseFile(profile.name, 'first', 'nft'), nftTableText(profile, nftables)],
      [baseFile(profile.name, 'last', 'nft'), nftBaseText(profile, nftables, base)],
      ...servicesOf(model, profile).map((service): [string, string] => [
        serviceFile(profile.name, service.namespace, service.name, 'nft'),
        textOf(service),
      ]),
    ];
    return files.filter(([, text]) => text !== '');
  };
}
