import { failed, mustPrint } from './failure.ts';
import { type TableName, switches } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { SwitchState, Switch } from '../ports/kernel.ts';
import { interfaceAddresses } from './facts.ts';
import type { Run } from './command.ts';

/**
 * The switch as ipsets. Each table matches a `list:set`, whose members are one `hash:net` per family, so that both families share one set
 * and one moment: it is turned on by swapping in a filled spare set, which the kernel does in one operation.
 */
const members = {
  'SLUICE-ALL4': { family: 'inet', everything: ['0.0.0.0/1', '128.0.0.0/1'] },
  'SLUICE-ALL6': { family: 'inet6', everything: ['::/1', '8000::/1'] },
} as const;
const spare = 'SLUICE-SPARE';

/** For entries without a timeout of their own: a default of 0 would make such an entry permanent. */
const timeoutSeconds = 30;

/** The sets of this machine. Every change is one process. */
export class LinuxSwitch implements Switch {
  readonly #ipset: string;
  readonly #run: Run;

  constructor(ipset: string, run: Run) {
    this.#ipset = ipset;
    this.#run = run;
  }

  /** nat's set is created last and removed first: while it exists, the others do, too. */
  async look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined> {
    const nat = await this.#switchState('nat');
    return nat === undefined ? undefined : { nat, filter: (await this.#switchState('filter')) ?? 'off' };
  }

  async #switchState(table: TableName): Promise<SwitchState | undefined> {
    const text = await this.#save(switches[table]);
    if (text === undefined) return undefined;
    const entries = [...text.matchAll(/^add \S+ SLUICE-ALL[46](?: timeout (\d+))?/gm)];
    if (entries.length === 0) return 'off';
    return entries.every(([, timeout]) => timeout === '0') ? 'pinned' : 'on';
  }

  /** The output of `ipset save`; undefined without such a set. */
  async #save(set: string): Promise<string | undefined> {
    const ran = await this.#run({ file: this.#ipset, args: ['save', set], isSmall: true, isRepeatable: true });
    if (ran.exitCode === 0) {
      mustPrint(this.#ipset, ran.stdout, (line) => /^(?:create|add) /.test(line));
      return ran.stdout;
    }
    if (ran.stderr.includes('does not exist')) return undefined;
    throw failed(`${this.#ipset} save ${set}`, ran);
  }

  async make(sources: readonly string[], withOwn = false): Promise<void> {
    const { ipv4, ipv6 } = interfaceAddresses();
    const taking = withOwn ? [...sources, ...ipv4, ...ipv6] : sources;
    const lines = Object.entries(members).flatMap(([name, { family, everything }]) => {
      const own = taking.filter((cidr) => cidr.includes(':') === (family === 'inet6'));
      const networks = sources.length === 0 ? everything : own;
      return [
        `create ${name} hash:net family ${family}`,
        `flush ${name}`,
        ...networks.map((cidr) => `add ${name} ${cidr}`),
      ];
    });
    const lists = [switches.filter, spare, switches.nat].map(
      (name) => `create ${name} list:set timeout ${timeoutSeconds}`,
    );
    await this.#restore([...lines, ...lists]);
  }

  async on(seconds: number): Promise<void> {
    const filterSeconds = seconds === 0 ? 0 : seconds + limits.deadmanFilterSeconds;
    const lines = (table: TableName, timeout: number): readonly string[] => {
      const add = Object.keys(members).map((name) => `add ${spare} ${name} timeout ${timeout}`);
      return [`flush ${spare}`, ...add, `swap ${spare} ${switches[table]}`];
    };
    await this.#restore([...lines('filter', filterSeconds), ...lines('nat', seconds), `flush ${spare}`]);
  }

  async off(table: TableName): Promise<void> {
    // One process and no query before it: a rollback is urgent.
    const ran = await this.#run({
      file: this.#ipset,
      args: ['flush', switches[table]],
      isSmall: true,
      isRepeatable: true,
    });
    if (ran.exitCode !== 0 && !ran.stderr.includes('does not exist'))
      throw failed(`${this.#ipset} flush ${switches[table]}`, ran);
  }

  /** Lists them first: a process that was killed halfway left only some. */
  async remove(): Promise<void> {
    const listed = await this.#run({ file: this.#ipset, args: ['list', '-n'], isSmall: true, isRepeatable: true });
    if (listed.exitCode !== 0) throw failed(`${this.#ipset} list`, listed);
    const there = new Set(listed.stdout.split('\n'));
    const names = [switches.nat, switches.filter, spare, ...Object.keys(members)];
    const gone = names.filter((one) => there.has(one)).map((name) => `destroy ${name}`);
    if (gone.length > 0) await this.#restore(gone);
  }

  async #restore(lines: readonly string[]): Promise<void> {
    const input = lines.map((line) => `${line}\n`).join('');
    const ran = await this.#run({ file: this.#ipset, args: ['restore', '-exist'], input, isSmall: true });
    if (ran.exitCode !== 0) throw failed(`${this.#ipset} restore`, ran);
  }
}
