import type { KernelError } from '../../ports/failure.ts';
import { failed, garbled, mustPrint } from '../failure.ts';
import { listChain, printNftTable } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { filledByPackets, type ObservedNft, NftReader, withoutComments } from '../../ports/nftables/observed.ts';
import type { NftKernel, NftLack } from '../../ports/nftables/ports.ts';
import type { NftStep } from '../../ports/nftables/values.ts';
import { Interrupted } from '../../apply/transaction/restore.ts';
import type { Run, ToolResult } from '../command.ts';
import { NftCounts } from './nft-counts.ts';
import { type NftWriter, OneShotWriter } from './nft-writer.ts';
import type { NftSets, SetMember } from './nft-switch.ts';

/**
 * The table with every option that adds a rule, a list with each kind of rule, and a source range, under another name. No packet meets it:
 * the kernel makes no hooks for a dormant table, and nothing of it stays after `--check`.
 */
const checkText = asDormant(
  [
    printNftTable({ detector: 'address', masqueradeAll: false, tcpReset: true }),
    ...['n2', 'pn2', 's2t600', 'i2-0000000000000000', 'h2', 'm1009']
      .flatMap(listChain)
      .map((command) => `${command}\n`),
    'add element inet sluice allow4 { 192.0.2.1 . 6 . 80 . 198.51.100.0/24 }\n',
    'add element inet sluice svc4 { 192.0.2.1 . 6 . 80 : goto n2 }\n',
    'add element inet sluice tcp4 { 192.0.2.1 . 80 . 0 : 198.51.100.1 . 8080 }\n',
  ].join(''),
);

function asDormant(text: string): string {
  return text.replaceAll('inet sluice ', 'inet sluice-check ').replace('{\n', '{\n  flags dormant;\n');
}

/** The errors of nft for a missing table or set. */
const absent = /No such file or directory/;

/** The table of mode nftables of this machine. Every change is one transaction. */
export class LinuxNft implements NftKernel, NftSets {
  readonly #nft: string;
  readonly #run: Run;
  readonly #writer: NftWriter;
  /** New connections to endpoints, where the table counts them. */
  readonly counts: NftCounts;
  #writes = false;
  #hasManyClients = false;

  /** @param nft the path of the tool */
  constructor(nft: string, run: Run, writer: NftWriter = new OneShotWriter(nft, run)) {
    this.#nft = nft;
    this.#run = run;
    this.#writer = writer;
    this.counts = new NftCounts(nft, run);
  }

  async observe(interrupt?: AbortSignal): Promise<ObservedNft | undefined> {
    const apart = this.#hasManyClients ? await this.#observeApart(interrupt) : undefined;
    if (apart) return apart;
    const reader = new NftReader();
    const ran = await this.#list(['table', 'inet', 'sluice'], reader, interrupt);
    this.#hasManyClients = reader.clients > limits.clientsReadMax;
    if (ran.exitCode === 0) {
      const observed = reader.done();
      if (!reader.isListing) throw garbled(`${this.#nft} list table`, '');
      return observed;
    }
    if (absent.test(ran.stderr)) return undefined;
    throw this.#failed('list table', ran);
  }

  /**
   * Reads the chains, then each set without the clients of session affinity: with 100,000 of them the whole table takes more than twice
   * as long. Only so, because `-t list table` of nft 1.0.6 reads all elements, too, and it can crash at sets of other tables.
   * @returns undefined if that cannot be done here
   */
  async #observeApart(interrupt?: AbortSignal): Promise<ObservedNft | undefined> {
    const reader = new NftReader();
    if ((await this.#list(['ruleset', 'inet'], reader, interrupt, ['-t'])).exitCode !== 0) return undefined;
    const { parts } = reader.done();
    for (const part of parts) {
      const [kind = '', name = ''] = part.split(' ');
      if ((kind !== 'set' && kind !== 'map') || filledByPackets.test(name)) continue;
      const ran = await this.#list([kind, 'inet', 'sluice', name], reader, interrupt);
      if (ran.exitCode !== 0) return undefined;
    }
    return parts.size === 0 ? undefined : reader.done();
  }

  async #list(
    what: readonly string[],
    reader: NftReader,
    signal: AbortSignal | undefined,
    options: readonly string[] = [],
  ): Promise<ToolResult> {
    const onOutput = (part: string): void => reader.take(part);
    const ran = await this.#run({ file: this.#nft, args: ['-n', ...options, 'list', ...what], onOutput, signal });
    if (signal?.aborted === true) throw new Interrupted();
    return ran;
  }

  async exists(): Promise<boolean> {
    // nft 1.0.6 reads every element of every table to list the names of tables: 0.9 s at 10,000 Services.
    if ((await this.members('trial4')) !== undefined) return true;
    const ran = await this.#run({ file: this.#nft, args: ['list', 'tables', 'inet'] });
    if (ran.exitCode !== 0) throw this.#failed('list tables', ran);
    mustPrint(this.#nft, ran.stdout, (line) => line.startsWith('table '));
    return /^table inet sluice$/m.test(ran.stdout);
  }

  async lack(again = false): Promise<NftLack | undefined> {
    if (this.#writes && !again) return undefined;
    const ran = await this.#run({ file: this.#nft, args: ['--check', '-f', '-'], input: checkText });
    this.#writes = ran.exitCode === 0;
    if (this.#writes) return undefined;
    const crash = crashReason(ran);
    const hint =
      'Mode nftables is tested with Linux 6.1, 6.12 and 6.18, and with nft 1.0.6 and 1.1.3; it needs Linux 5.6';
    return crash === undefined
      ? { why: `${this.#nft} or the kernel does not take its table: ${ran.why}`, hint }
      : {
          why: `${this.#nft} ${crash}`,
          hint: 'Install an nft that is at least as new as the newest that writes here, also in containers',
        };
  }

  /** @throws KernelError when the kernel takes nothing of it */
  async apply({ text }: Pick<NftStep, 'text'>): Promise<void> {
    await this.load(text);
  }

  async load(text: string): Promise<void> {
    const ran = await this.counts.around(text, () => this.#writer.write(text));
    if (ran.exitCode !== 0) throw this.#failed('-f', ran);
  }

  async members(set: string): Promise<readonly SetMember[] | undefined> {
    const args = ['-n', 'list', 'set', 'inet', 'sluice', set];
    const ran = await this.#run({ file: this.#nft, args, isSmall: true, isRepeatable: true });
    if (ran.exitCode === 0) {
      if (!ran.stdout.includes('table inet sluice {')) throw garbled(`${this.#nft} list set ${set}`, ran.stdout);
      return membersOf(ran.stdout);
    }
    if (absent.test(ran.stderr)) return undefined;
    throw this.#failed(`list set ${set}`, ran);
  }

  #failed(action: string, ran: ToolResult): KernelError {
    const crash = crashReason(ran);
    const why = crash === undefined ? (ownedReason(ran) ?? ran.why) : `it ${crash}`;
    return failed(`${this.#nft} ${action}`, ran, why);
  }
}

/** @returns why the kernel refuses a change of a table that another process owns; undefined: something else is wrong */
function ownedReason({ stderr }: Pick<ToolResult, 'stderr'>): string | undefined {
  return stderr.includes('Operation not permitted')
    ? 'another process owns the table, or sluiced has no CAP_NET_ADMIN: `nft list table inet sluice` shows `flags owner` and the name of the process; end it, the rules stay'
    : undefined;
}

/**
 * nft 1.0.6 dies where it meets a set that nft 1.1.3 made, in whatever table: nothing can be written then.
 * @returns why a tool crashed, as a predicate; undefined: it did not
 */
function crashReason({ exitCode, why }: Pick<ToolResult, 'exitCode' | 'why'>): string | undefined {
  return exitCode === undefined && /SIGSEGV|SIGABRT|SIGBUS/.test(why)
    ? `crashed (${why}): a newer nft writes in this network namespace; install an nft of at least that version`
    : undefined;
}

function membersOf(listing: string): readonly SetMember[] {
  const body = /elements = \{([^}]*)\}/.exec(withoutComments(listing))?.[1] ?? '';
  return body
    .split(',')
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .map((text) => ({ key: text.split(' ')[0] ?? '', isTimed: text.includes(' timeout ') }));
}
