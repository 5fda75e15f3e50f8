import type { Mode } from '@sluice/netfilter';
import type { Profile, SluiceConfig } from './model/config.ts';
import type { Memo } from './model/memo.ts';
import type { Model } from './model/model.ts';
import type { NodeFleet } from './select/guards.ts';
import { iptablesBaseFiles, iptablesServiceFiles } from './compile/iptables-files.ts';
import { ipvsCompiler } from './compile/ipvs/files.ts';
import { nftBaseFiles, nftServiceFiles } from './compile/nftables/base.ts';
import type { ServiceFiles, ServiceFilesContext } from './compile/service-files.ts';

/** What the files of all profiles are compiled from. */
interface ProfileContext {
  readonly model: Model;
  readonly config: SluiceConfig;
  readonly fleet: NodeFleet;
  readonly memo: Memo;
}

type ProfileFiles = (profile: Profile) => readonly [path: string, text: string][];

/** How the files of a mode are compiled. */
interface CompiledMode {
  /** The files of a profile besides its document, its sysctls and what `serviceFiles` gives. */
  readonly profileFiles: (context: ProfileContext) => ProfileFiles;
  /** Left out: the files of Services depend on all of them, and are among `profileFiles`. */
  readonly serviceFiles?: (profile: Profile, context: ServiceFilesContext, memo: Memo) => ServiceFiles;
}

const compiledModes: Readonly<Record<Mode, CompiledMode>> = {
  iptables: { profileFiles: () => iptablesBaseFiles, serviceFiles: iptablesServiceFiles },
  ipvs: {
    // The size of sets depends on all Services.
    profileFiles: ({ model, fleet, memo }) => {
      const compile = ipvsCompiler(model, fleet, memo);
      return (profile) => (profile.ipvs ? compile(profile, profile.ipvs) : []);
    },
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

/** Compiles the files of single Services for a profile. @returns undefined where they depend on all Services */
export const serviceCompiler = (profile: Profile, context: ServiceFilesContext, memo: Memo): ServiceFiles | undefined =>
  compiledModes[profile.mode].serviceFiles?.(profile, context, memo);

/** Whether the files of a Service can be compiled without the others. */
export const compilesSingly = ({ mode }: Profile): boolean => compiledModes[mode].serviceFiles !== undefined;
