import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { SluicedNode, until } from '../netns/sluiced-node.ts';

/** A node whose nft and kernel know `flags owner,persist`. */
export class OwnedNode {
  readonly real: SluicedNode;

  private constructor(real: SluicedNode) {
    this.real = real;
  }

  /** @param nft the path of an nft that knows the flags */
  static async make(nft: string): Promise<OwnedNode> {
    const real = await SluicedNode.make(`mount --bind ${nft} /usr/sbin/nft &&`);
    real.writeConfig('nft');
    return new OwnedNode(real);
  }

  remove(): Promise<void> {
    return this.real.remove();
  }

  /** Writes a bundle in which `shop/web` has these endpoints. */
  put(...web: readonly number[]): void {
    this.putServices({ 'shop/web': web });
  }

  /** Writes a bundle with these Services, by their endpoints, beside `shop/cart`. */
  putServices(some: Readonly<Record<string, readonly number[]>>, mode: 'iptables' | 'nftables' = 'nftables'): void {
    const services = { ...some, 'shop/cart': [3] };
    // Files of Services that go, and of another mode.
    rmSync(`${this.real.directory}/rendered`, { recursive: true, force: true });
    writeBundle(`${this.real.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
  }

  /** Starts the daemon, and waits until it owns the table with these endpoints of shop/web. */
  async start(...web: readonly number[]): Promise<ReturnType<SluicedNode['start']>> {
    this.put(...web);
    const daemon = this.real.start();
    await this.owned();
    return daemon;
  }

  async owned(waitMs?: number): Promise<void> {
    await until('the table is owned', async () => (await this.protection()) === 'owned', waitMs);
  }

  async protection(): Promise<string | undefined> {
    const status = await this.real.get();
    return status === undefined
      ? undefined
      : (JSON.parse(status) as { protection?: { kind: string } }).protection?.kind;
  }

  /** A foreign `nft`; the error that it got. */
  async foreign(...args: readonly string[]): Promise<string> {
    return this.real.tool(['nft', ...args]).then(
      () => '',
      (error: { stderr?: string }) => error.stderr ?? 'failed',
    );
  }

  /** The line `flags …` of the table; `''` if it has none. */
  async flags(): Promise<string> {
    return /flags .*/.exec(await this.real.tool(['nft', '-t', 'list', 'table', 'inet', 'sluice']))?.[0] ?? '';
  }
}

/** The processes `nft -i` that a daemon started. */
export const ownersOf = (pid: number | undefined): readonly number[] => childrenOf(pid, / -i $/);

/** The children of a process, by their command lines. */
function childrenOf(pid: number | undefined, line: RegExp): readonly number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const isChild = Number(/\) \S (\d+)/.exec(stat)?.[1]) === pid;
      return isChild && line.test(readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' '))
        ? [Number(name)]
        : [];
    } catch {
      return [];
    }
  });
}

/** The resident memory of a process; 0 when it has ended. */
export function residentBytes(pid: number): number {
  try {
    return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
