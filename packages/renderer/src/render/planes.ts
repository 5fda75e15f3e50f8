import type { Mode } from '@sluice/netfilter';
import type { Profile, SluiceConfig } from './model/config.ts';
import type { Memo } from './model/memo.ts';
import type { Model } from './model/model.ts';
import type { NodeFleet } from './select/guards.ts';
import { iptablesBaseFiles, iptablesServiceFiles } from './compile/iptables-files.ts';
import { ipvsBaseFiles, ipvsServiceFiles, ipvsSetFiles } from './compile/ipvs/files.ts';
import { nftBaseFiles, nftServiceFiles } from './compile/nftables/base.ts';
import type { ServiceFiles, ServiceFilesContext, SummedFiles } from './compile/service-files.ts';

/** What the files of all profiles are compiled from. */
interface ProfileContext {
  readonly model: Model;
  readonly config: SluiceConfig;
  readonly fleet: NodeFleet;
}

type ProfileFiles = (profile: Profile) => readonly [path: string, text: string][];

/** How the files of a mode are compiled. */
interface CompiledMode {
  /** The files of a profile besides its document, its sysctls and those below. */
  readonly profileFiles: (context: ProfileContext) => ProfileFiles;
  readonly serviceFiles: (profile: Profile, context: ServiceFilesContext, memo: Memo) => ServiceFiles;
  readonly summedFiles?: (profile: Profile, context: ServiceFilesContext, memo: Memo) => SummedFiles;
}

const compiledModes: Readonly<Record<Mode, CompiledMode>> = {
  iptables: { profileFiles: () => iptablesBaseFiles, serviceFiles: iptablesServiceFiles },
  ipvs: {
    profileFiles: ({ model, fleet }) => {
      const compile = ipvsBaseFiles(model, fleet);
      return (profile) => (profile.ipvs ? compile(profile, profile.ipvs) : []);
    },
    serviceFiles: ipvsServiceFiles,
    summedFiles: ipvsSetFiles,
  },
  nftables: {
    profileFiles: ({ model, config, fleet }) => {
      const compile = nftBaseFiles(model, config, fleet);
      return (profile) => (profile.nftables ? compile(profile, profile.nftables) : []);
    },
    serviceFiles: nftServiceFiles,
  },
};

/** Compiles what profiles have besides documents, sysctls and the files of single Services. */
export function profileCompiler(context: ProfileContext): ProfileFiles {
  const compilers = new Map<Mode, ProfileFiles>();
  return (profile) => {
    const compile = compilers.get(profile.mode) ?? compiledModes[profile.mode].profileFiles(context);
    compilers.set(profile.mode, compile);
    return compile(profile);
  };
}

/** Compiles the files of single Services for a profile: they depend on no other Service. */
export const serviceCompiler = (profile: Profile, context: ServiceFilesContext, memo: Memo): ServiceFiles =>
  compiledModes[profile.mode].serviceFiles(profile, context, memo);

/** The files of a profile that depend on a sum over its Services. @returns undefined where there are none; else no Service is counted yet */
export const summedFilesOf = (profile: Profile, context: ServiceFilesContext, memo: Memo): SummedFiles | undefined =>
  compiledModes[profile.mode].summedFiles?.(profile, context, memo);
