import { tableOptions } from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { countsOfFrontends } from '../../apply/counts/of-frontends.ts';
import { countsOfServers, trafficOfServers } from '../../apply/counts/of-servers.ts';
import type { RuleCount } from '../../apply/counts/rule-counts.ts';
import { ServiceCounts, type ServiceReport } from '../../apply/counts/service-counts.ts';
import { readServerStatistics } from '../../kernel/ipvs/ipvs-statistics.ts';
import type { LinuxKernel } from '../../kernel/linux/linux.ts';
import type { WorkCost } from '../../kernel/processor-time.ts';
import { readRuleCounts } from '../../kernel/rule-counts.ts';
import { runChildren } from '../../kernel/run.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { findTool, type Tools } from '../../kernel/tools.ts';
import { readTrackedTraffic } from '../../kernel/conntrack/traffic.ts';
import type { EndpointCount } from '../../ports/nftables/counts.ts';
import { nodePlaneOf } from '../../apply/planes/planes.ts';
import type { NodeState } from '../../ports/node-state.ts';
import type { DiskJournal } from '../../state/journal.ts';

/** New connections. Undefined: they are not counted, or a change goes on. */
interface NodeCounts {
  /** To the endpoints of each frontend, in mode nftables. */
  readonly endpoints?: readonly EndpointCount[] | undefined;
  /** To Services, since the first reading. */
  readonly services?: ServiceReport;
}

interface CountedNode {
  readonly config: Pick<SluicedConfig, 'countConnections' | 'countTraffic' | 'countedServices'>;
  readonly journal: DiskJournal;
  readonly kernel: Pick<LinuxKernel, 'nft'>;
  readonly tools: Tools;
  /** How often drift was repaired: another program had changed the rules before. */
  readonly repairs: () => number;
}

/** Reads what the kernel counts, and adds what that takes to a cost. Its tools hold no lock: they change nothing. */
export class Counting {
  readonly #node: CountedNode;
  readonly #services: ServiceCounts;

  constructor(node: CountedNode) {
    this.#node = node;
    this.#services = new ServiceCounts(node.config.countedServices);
  }

  /** Reads new connections, in modes iptables and ipvs where the config says so, in mode nftables where the profile does. */
  async counts(cost: WorkCost): Promise<NodeCounts> {
    const { journal, kernel } = this.#node;
    const endpoints = countsEndpoints(journal) ? await kernel.nft?.counts.read(cost) : undefined;
    const reading = endpoints ? undefined : await this.#ofRulesOrServers(cost);
    const state = journal.active?.state;
    return cost.own((): NodeCounts => {
      const ofService = reading ?? (endpoints && state?.services && countsOfFrontends(endpoints, state.services));
      return ofService && state
        ? { endpoints, services: this.#services.take(ofService, state, performance.now(), { of: this.#rules }) }
        : { endpoints };
    });
  }

  /** Reads live connections and bytes. @returns undefined where the config does not ask for them, or nothing can be read */
  async traffic(cost: WorkCost): Promise<ServiceReport | undefined> {
    const state = this.#state;
    if (!state || !this.#node.config.countTraffic) return undefined;
    if (nodePlaneOf(state).hasServers) {
      const read = await statisticsOfServers(cost);
      return cost.own(() => this.#services.takeTraffic(trafficOfServers(read, state), true, performance.now()));
    }
    const conntrack = findTool('conntrack');
    if (conntrack === undefined) return undefined;
    const reading = await readTrackedTraffic(conntrack, state, cost.of(runChildren()));
    const hasBytes = procTunables.read('net.netfilter.nf_conntrack_acct') === 1;
    return cost.own(() => this.#services.takeTraffic(reading, hasBytes, performance.now()));
  }

  async #ofRulesOrServers(cost: WorkCost): Promise<readonly RuleCount[] | undefined> {
    const state = this.#state;
    if (!state || nodePlaneOf(state).hasOwnTable || !this.#node.config.countConnections) return undefined;
    return nodePlaneOf(state).hasServers
      ? countsOfServers(await statisticsOfServers(cost), state)
      : readRuleCounts(this.#node.tools, cost.of(runChildren()));
  }

  /** The rules that packets meet, as `Balance.take` asks; a release on probation shares the names of its groups with the active one. */
  get #rules(): string | undefined {
    const { journal, repairs } = this.#node;
    return journal.open ? undefined : `${repairs()}`;
  }

  /** The active state; undefined: there is none, or the kernel may hold another one. */
  get #state(): NodeState | undefined {
    const { active, halted } = this.#node.journal;
    return halted === undefined ? active?.state : undefined;
  }
}

const countsEndpoints = ({ active }: DiskJournal): boolean =>
  active?.state.nft !== undefined && tableOptions(active.state.nft.settings).endpointCounters === true;

async function statisticsOfServers(cost: WorkCost): ReturnType<typeof readServerStatistics> {
  const ipvsadm = findTool('ipvsadm');
  return ipvsadm === undefined ? [] : readServerStatistics(ipvsadm, cost.of(runChildren()));
}
