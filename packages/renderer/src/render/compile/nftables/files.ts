import { baseFile } from '@sluice/bundle';
import type { NftablesProfile, Profile, SluiceConfig } from '../../config.ts';
import type { Model } from '../../model.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { undetectedNodes } from '../undetected.ts';
import { nftBaseText, nftTableText } from './base.ts';

/** The base files of a profile of mode nftables, as path and text. */
export type NftBaseFiles = (profile: Profile, nftables: NftablesProfile) => readonly [path: string, text: string][];

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
