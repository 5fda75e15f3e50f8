import type { ProfileFile } from './documents.ts';
import {
  type HostValues,
  type Family,
  cidrContains,
  onKernel,
  parseKernelRelease,
  readSysctlLine,
  type Sysctl,
  type SysctlKey,
} from '@sluice/netfilter';

/** The facts of a machine that its rules and sysctls depend on. */
export interface Machine {
  /** Such as `6.1.0-44-amd64`. */
  readonly kernelRelease: string;
  /** Per family: the addresses of its interfaces without `kube-ipvs0`, sorted. */
  readonly addresses: Readonly<Record<Family, readonly string[]>>;
  /** Whether `nf_conntrack_tcp_be_liberal` is not 0; false until the kernel has loaded conntrack. */
  readonly tcpBeLiberal: boolean;
}

/** The parts of a resolved node that `hostValues` depends on. */
interface NodeSettings {
  readonly profile: Pick<ProfileFile, 'nodePortAddresses'>;
  /** Lines of `sysctl.conf`. */
  readonly sysctls: readonly string[];
}

/** Decides whether the INVALID drop is written: `invalidDrop`. */
export const liberalKey = 'net.netfilter.nf_conntrack_tcp_be_liberal' satisfies SysctlKey;

/**
 * The values of `${host.*}` in rule files, and whether the INVALID drop is written. README.md, "Variables" and "The INVALID drop".
 * A sysctl that the bundle sets takes precedence over its present value.
 */
export function hostValues({ profile, sysctls }: NodeSettings, machine: Machine, family: Family): HostValues {
  const isOpen = (address: string): boolean => profile.nodePortAddresses.some((cidr) => cidrContains(cidr, address));
  const own = settingsOn(sysctls, machine).find(({ key }) => key === liberalKey);
  return {
    nodePortAddresses: machine.addresses[family].filter(isOpen),
    tcpBeLiberal: own ? own.value !== 0 : machine.tcpBeLiberal,
  };
}

function settingsOn(lines: readonly string[], { kernelRelease }: Machine): readonly Sysctl[] {
  const release = parseKernelRelease(kernelRelease) ?? [0, 0];
  return lines.flatMap((line) => {
    const setting = readSysctlLine(onKernel(line, release) ?? '');
    return typeof setting === 'string' ? [] : [setting];
  });
}
