import type { Hold } from '../../ports/adoption.ts';
import type { IpvsKernel } from '../../ports/ipvs/ports.ts';
import type { IpvsStep } from '../../ports/ipvs/values.ts';
import type { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import type { Journal } from '../../ports/journal.ts';
import type { Kernel } from '../../ports/kernel.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { kernelText } from '../../testing/data-plane.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { ipvsProxyRules, proxyChain, proxyJumps, proxyRules } from '../../testing/kube-proxy.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import { adopt, type AdoptionDependencies, type AdoptEnding } from './adopt.ts';
import { undo, type UndoEnding } from './undo.ts';

/** For tests only: a node with a fake kernel on which a kube-proxy runs, and processes that move it. */

/** A chain that only this kube-proxy in mode iptables has. */
export const svc = proxyChain('shop/web');
const rules = proxyRules([{ name: 'shop/web', address: '10.96.0.11/32', endpoints: ['10.244.0.2:8080'] }]);
/** The rules of a CNI plugin. */
const foreign = '*nat\n:CNI-X - [0:0]\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\n-A CNI-X -j RETURN\nCOMMIT\n';

export const hold: Hold = { kind: 'manifest', manifest: '/etc/kubernetes/manifests/kube-proxy.yaml' };

/** What a kube-proxy in mode ipvs has besides its rules: the address of shop/web and its virtual server. */
export const ipvsState: readonly IpvsStep[] = [
  {
    kind: 'ipset',
    text: 'create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536\nadd KUBE-CLUSTER-IP 10.96.0.11,tcp:80\n',
    because: 'kube-proxy',
  },
  {
    kind: 'ipvsadm',
    text: '-A -t 10.96.0.11:80 -s rr\n-a -t 10.96.0.11:80 -r 10.244.0.2:8080 -m -w 1\n',
    because: 'kube-proxy',
  },
  {
    kind: 'ip',
    text: 'link add kube-ipvs0 type dummy\naddr add 10.96.0.11/32 dev kube-ipvs0\n',
    because: 'kube-proxy',
  },
];

export type ProxyMode = 'iptables' | 'ipvs';
export type Mode = 'iptables' | 'nftables';
export const bundleOf = (mode: Mode) => sampleBundle({ services: { 'shop/web': [1, 2] }, families: ['ipv4'], mode });

export class MovedNode {
  readonly scene: Scene = scene({ rules: { ipv4: foreign } });
  readonly #mode: ProxyMode;
  /** Whether kube-proxy may run: as on a disk, that outlives a process. */
  isHeld = false;

  private constructor(mode: ProxyMode) {
    this.#mode = mode;
    this.scene.layout = 'tree';
  }

  /** A node on which a kube-proxy runs. */
  static async begin(mode: ProxyMode): Promise<MovedNode> {
    const node = new MovedNode(mode);
    await node.startProxy();
    return node;
  }

  get kernel(): FakeKernel {
    return this.scene.kernel;
  }

  get state(): { readonly isHeld: boolean; readonly running: readonly number[] } {
    return { isHeld: this.isHeld, running: this.scene.kubeProxies };
  }

  /** kube-proxy starts: it inserts the jumps that are missing, and writes its rules again, in mode ipvs after virtual servers. */
  async startProxy(): Promise<void> {
    if (this.scene.kubeProxies.length > 0) return;
    this.scene.kubeProxies = [4711];
    if (this.#mode === 'ipvs') {
      // A removal that crashed may have left a part.
      this.kernel.ipvs.clear();
      for (const step of ipvsState) await this.kernel.ipvs.apply(step);
    }
    const saved = this.kernel.save('ipv4');
    const textOf = (table: string): string => saved.split(`*${table}\n`)[1]?.split('COMMIT')[0] ?? '';
    this.kernel.load('ipv4', this.#mode === 'ipvs' ? ipvsProxyRules() : rules);
    for (const [table, hook, target, comment] of proxyJumps)
      if (!new RegExp(`^-A ${hook} .*-j ${target}$`, 'm').test(textOf(table)))
        this.kernel.load('ipv4', `*${table}\n-I ${hook} -m comment --comment "${comment}" -j ${target}\nCOMMIT\n`);
  }

  /** Whether packets to the address of shop/web are routed to a virtual server of it. */
  async #hasServers(): Promise<boolean> {
    const { bound, servers } = await this.kernel.ipvs.observe();
    return bound?.ipv4.has('10.96.0.11') === true && [...servers.values()].some(({ real }) => real.size > 0);
  }

  /** Whether packets to shop/web meet rules that serve it. */
  async serves(): Promise<boolean> {
    const saved = this.kernel.save('ipv4');
    const jump = (to: string): boolean => new RegExp(`^-A PREROUTING .*-j ${to}$`, 'm').test(saved);
    const ofProxy = jump('KUBE-SERVICES') && saved.includes(`-A ${svc} `);
    const ours = jump('SLUICE-SERVICES') && /^-A SLUICE-SERVICES .*-[jg] SLUICE-R/m.test(saved);
    const table = this.kernel.nft.list()?.elements.get('svc4');
    return ofProxy || ours || (table !== undefined && table.size > 0) || this.#hasServers();
  }

  /** A process. @param countdown at which call it crashes */
  async process(countdown: Countdown = new Countdown(-1, 'before')) {
    const plain = await this.scene.start();
    const kernel: Kernel = { ...mortalKernel(this.kernel, countdown), ipvs: mortalIpvs(this.kernel.ipvs, countdown) };
    const journal: Journal = mortalJournal(plain.journal, countdown);
    const clock = steppingClock();
    const start = async (options: object) => (await this.scene.start(options, { kernel, journal, clock })).reconciler;
    const parts: AdoptionDependencies = {
      journal,
      kernel,
      clock,
      families: ['ipv4'],
      kubeProxy: {
        running: () => this.scene.kubeProxies.map((pid) => `process ${pid}`),
        refuses: async () => undefined,
        hold: () =>
          countdown.through(async () => {
            this.isHeld = true;
            this.scene.kubeProxies = [];
          }),
        release: () =>
          countdown.through(async () => {
            this.isHeld = false;
            await this.startProxy();
            return undefined;
          }),
      },
      removeTables: async () => 0,
      rulesElsewhere: async () => ({}),
      say: () => undefined,
      waitMs: 1_000,
    };
    const any = await start({});
    return {
      parts,
      journal,
      any,
      front: await start({ beneath: true, takeOrder: true }),
      instead: await start({ takeOver: true }),
    };
  }

  async move(mode: Mode, countdown?: Countdown): Promise<AdoptEnding> {
    const { parts, any, front, instead } = await this.process(countdown);
    await any.recover();
    return adopt(bundleOf(mode), hold, { front, instead }, parts);
  }

  async back(countdown?: Countdown): Promise<UndoEnding> {
    const { parts, journal, any } = await this.process(countdown);
    await any.recover();
    const cleanUp = (): Promise<number> => any.cleanup(true);
    return undo({ ...parts, journal, cleanUp, rollBackTo: (target) => any.rollBackTo(target) });
  }

  /** All that forwards packets, chain by chain: a chain that kube-proxy writes again is listed later. */
  async text(): Promise<string> {
    const { servers, bound, sets } = await this.kernel.ipvs.observe();
    const addresses = [...(bound?.ipv4 ?? [])].map((address) => `bound ${address}`);
    return [...kernelText(this.kernel).split('\n'), ...servers.keys(), ...sets.keys(), ...addresses]
      .toSorted()
      .join('\n');
  }
}

const mortalIpvs = (ipvs: IpvsKernel, countdown: Countdown): IpvsKernel => ({
  observe: (known) => ipvs.observe(known),
  connections: (of) => ipvs.connections(of),
  apply: (step) => countdown.through(() => ipvs.apply(step)),
});
