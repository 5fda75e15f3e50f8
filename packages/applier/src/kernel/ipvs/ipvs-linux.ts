import type { KernelError } from '../../ports/failure.ts';
import { failed, mustPrint } from '../failure.ts';
import { quoted } from '@sluice/bundle';
import { readServers } from '@sluice/netfilter';
import type { Connections } from '../../ports/ipvs/drain.ts';
import type { IpvsKernel } from '../../ports/ipvs/ports.ts';
import type { KnownIpvs, ObservedIpvs, IpvsStep } from '../../ports/ipvs/values.ts';
import { readAddresses, readConnections, readSets, readTimeouts } from './ipvs-read.ts';
import type { ToolResult, Run } from '../command.ts';
import type { IpvsTools } from '../tools.ts';

/** The arguments with which each tool reads a batch from its standard input. */
const batchArgs = {
  // Entries that already exist, or are already removed, are no error.
  ipset: ['restore', '-exist'],
  ipvsadm: ['-R'],
  ip: ['-batch', '-'],
} as const satisfies Record<IpvsStep['kind'], readonly string[]>;

/** Virtual servers, sets and addresses of this machine. One process for each query and each step. */
export class LinuxIpvs implements IpvsKernel {
  readonly #tools: IpvsTools;
  readonly #run: Run;

  constructor(tools: IpvsTools, run: Run) {
    this.#tools = tools;
    this.#run = run;
  }

  async observe(known: KnownIpvs = {}): Promise<ObservedIpvs> {
    // The first call also loads the module, and with it the timeouts of connections.
    const servers = known.servers ?? readServers((await this.#ask('ipvsadm', ['-S', '-n'], /^-[Aa] /)).split('\n'));
    const timeouts = known.timeouts ?? {
      timeouts: readTimeouts(await this.#ask('ipvsadm', ['-L', '--timeout'], /^Timeout /)),
    };
    const sets = known.sets ?? { sets: readSets(await this.#ask('ipset', ['save'], /^(?:create|add) /)) };
    const addresses = known.addresses ?? readAddresses(await this.#ask('ip', ['-json', 'addr', 'show'], /^[[{,\]}\s]/));
    return { ...servers, ...timeouts, ...sets, ...addresses };
  }

  async connections(of?: 'established'): Promise<Connections> {
    return readConnections(await this.#ask('ipvsadm', ['-L', '-n'], /^(?:IP Virtual|Prot|TCP|UDP|SCTP|FWM| +->)/), of);
  }

  async apply({ kind, text }: IpvsStep): Promise<void> {
    const ran = await this.#run({ file: this.#tools[kind], args: batchArgs[kind], input: text, isOneText: true });
    // ipvsadm exits with 0 although the kernel refused a line, but then prints why.
    if (ran.exitCode !== 0 || (kind === 'ipvsadm' && ran.stderr.trim() !== '')) throw failedAt(this.#tools[kind], ran);
  }

  /** @param form of every line that the tool prints */
  async #ask(tool: IpvsStep['kind'], args: readonly string[], form: RegExp): Promise<string> {
    const ran = await this.#run({ file: this.#tools[tool], args });
    if (ran.exitCode !== 0) throw failedAt(`${this.#tools[tool]} ${args.join(' ')}`, ran);
    mustPrint(this.#tools[tool], ran.stdout, (line) => form.test(line));
    return ran.stdout;
  }
}

function failedAt(action: string, ran: ToolResult): KernelError {
  const { why, stderr } = ran;
  return failed(action, ran, why === '' ? quoted(stderr.trim().split('\n').slice(0, 3).join('; ')) : why);
}
