import { type AddressAndPort, canonicalAddress } from '@sluice/netfilter';
import type { ProbeConfig } from '../../config.ts';
import { limits } from '../../limits.ts';
import type { Clock } from '../../ports/clock.ts';
import { hostAndPort } from './answer.ts';
import { configuredProbes } from './probes.ts';

/** A probe of the config that asks a frontend. */
interface FrontendProbe {
  readonly probe: ProbeConfig;
  readonly target: AddressAndPort;
  /** The last verdict; undefined: none yet, or none since a client asked. */
  passes: boolean | undefined;
  askedMs: number;
  isRunning: boolean;
}

/** Verdicts of the probes that ask a frontend, tried again and again for as long as a client asks for them. */
export class FrontendProbes {
  readonly #probes: readonly FrontendProbe[];
  readonly #clock: Pick<Clock, 'sleep' | 'bootMs'>;
  readonly #judge: (probe: ProbeConfig) => Promise<boolean>;

  /** @param judge tries a probe until its window is decided */
  constructor(
    probes: readonly ProbeConfig[],
    clock: Pick<Clock, 'sleep' | 'bootMs'>,
    judge: (probe: ProbeConfig) => Promise<boolean> = async (probe) =>
      (await configuredProbes([probe], clock).untilVerdict()).every(({ healthy }) => healthy),
  ) {
    this.#clock = clock;
    this.#judge = judge;
    this.#probes = probes.flatMap((probe) => {
      const target = targetOf(probe);
      return target ? { probe, target, passes: undefined, askedMs: 0, isRunning: false } : [];
    });
  }

  /** Whether all probes that ask this frontend pass; undefined: one has no verdict yet. Without a port: of all ports. */
  passes({ address, port }: AddressAndPort): boolean | undefined {
    const own = this.#probes.filter(
      ({ target }) => target.address === address && (port === undefined || target.port === port),
    );
    for (const one of own) {
      one.askedMs = this.#clock.bootMs();
      if (!one.isRunning) void this.#run(one);
    }
    if (own.some(({ passes }) => passes === false)) return false;
    return own.every(({ passes }) => passes === true) ? true : undefined;
  }

  async #run(one: FrontendProbe): Promise<void> {
    one.isRunning = true;
    while (this.#clock.bootMs() - one.askedMs < limits.vip.askedMs) {
      one.passes = await this.#judge(one.probe).catch(() => false);
      await this.#clock.sleep(one.probe.intervalSeconds * 1000);
    }
    one.passes = undefined;
    one.isRunning = false;
  }
}

/** The address and port that a probe asks; undefined: a name, or a command. */
function targetOf(probe: ProbeConfig): AddressAndPort | undefined {
  const { host, port } = 'http' in probe ? hostOf(new URL(probe.http)) : hostAndPort(addressOf(probe));
  const address = canonicalAddress(host);
  return address === undefined ? undefined : { address, port };
}

const addressOf = (probe: ProbeConfig): string => ('tcp' in probe ? probe.tcp : 'dns' in probe ? probe.dns : '');

const hostOf = ({ hostname, port, protocol }: URL): { readonly host: string; readonly port: number } => ({
  host: hostname.replace(/^\[(.*)\]$/, '$1'),
  port: Number(port === '' ? (protocol === 'https:' ? 443 : 80) : port),
});
