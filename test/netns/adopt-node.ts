import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { programPath } from '@sluice/testing';
import { peek } from '../../packages/applier/src/state/peek.ts';
import type { NodeRecord } from '../../packages/applier/src/state/record.ts';
import { sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { proxyJumps, proxyRules } from '../../packages/applier/src/testing/kube-proxy.fixture.ts';
import { isInGuest } from '../in-guest.ts';
import { type Daemon, type ExecResult, Host } from './cluster-host.ts';
import { until } from './until.ts';

/**
 * A node with a kubelet and a kube-proxy that is a static pod: programs that stand in for them. The kubelet starts kube-proxy while the
 * manifest is there and ends it when it is gone; kube-proxy writes its rules as the real one does, jumps first, and stays. Namespaces of its
 * own for processes, too: the kube-proxy of another test must not be seen.
 */

/** What a kube-proxy has in the kernel: mode iptables in a rule store, or mode nftables. */
export type ProxyMode = 'nft' | 'legacy' | 'nftables';

/** For what hangs. */
const commandTimeoutMs = isInGuest ? 900_000 : 120_000;

const servicesWith = (web: readonly number[]) => [
  { name: 'shop/web', ipv4: '10.96.0.11', ipv6: 'fd00:96::a', endpoints: web },
  { name: 'shop/cart', ipv4: '10.96.0.12', ipv6: 'fd00:96::b', endpoints: [3] },
];
const podOf = (n: number, isSix: boolean): string => (isSix ? `[fd00:10::${n}]:8080` : `10.244.0.${n + 1}:8080`);
const rulesOf = (isSix: boolean, web: readonly number[]): string =>
  proxyRules(
    servicesWith(web).map(({ name, ipv4, ipv6, endpoints }) => ({
      name,
      address: isSix ? ipv6 : ipv4,
      endpoints: endpoints.map((n) => podOf(n, isSix)),
    })),
  );

const nftRules = (isSix: boolean, web: readonly number[]): string => {
  const family = isSix ? 'ip6' : 'ip';
  const elements = servicesWith(web).map(({ ipv4, ipv6, endpoints }) => {
    const to = endpoints.map((n, at) => `${at} : ${isSix ? `fd00:10::${n}` : `10.244.0.${n + 1}`}`).join(', ');
    return `${family} daddr ${isSix ? ipv6 : ipv4} tcp dport 80 dnat to numgen random mod ${endpoints.length} map { ${to} }:8080`;
  });
  return `add table ${family} kube-proxy
delete table ${family} kube-proxy
table ${family} kube-proxy {
  chain services { ${elements.join('; ')}; }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
}
`;
};

/** The shell text of the stand-in for kube-proxy. */
function proxyScript(mode: ProxyMode, dir: string): string {
  if (mode === 'nftables') return `nft -f ${dir}/proxy4.nft && nft -f ${dir}/proxy6.nft`;
  const of = (tool: string): string =>
    proxyJumps
      .map(([table, hook, to, comment]) => {
        const rule = `${hook} -m comment --comment "${comment}" -j ${to}`;
        const run = `${tool} -w -t ${table}`;
        return `${run} -N ${to} 2>/dev/null; ${run} -C ${rule} 2>/dev/null || ${run} -I ${rule}`;
      })
      .join('\n');
  const restore = (tool: string, n: number): string =>
    `${tool}-restore -w --noflush < ${dir}/proxy${n}.rules || exit 1`;
  return [
    of(`iptables-${mode}`),
    of(`ip6tables-${mode}`),
    restore(`iptables-${mode}`, 4),
    restore(`ip6tables-${mode}`, 6),
  ].join('\n');
}

/**
 * The files of a stand-in for kube-proxy: the shell text `proxy.sh`, and what it loads. It writes its rules, makes the file `synced`, and stays.
 * @param dir where the files are
 * @param web the endpoints of shop/web that it knows
 * @param protocol of both Services
 */
export function standInFiles(
  mode: ProxyMode,
  dir: string,
  web: readonly number[],
  protocol: 'tcp' | 'udp' = 'tcp',
): Readonly<Record<string, string>> {
  const of = (text: string): string => text.replaceAll(/\btcp\b/g, protocol);
  return {
    'proxy4.rules': of(rulesOf(false, web)),
    'proxy6.rules': of(rulesOf(true, web)),
    'proxy4.nft': of(nftRules(false, web)),
    'proxy6.nft': of(nftRules(true, web)),
    'proxy.sh': `${proxyScript(mode, dir)}\n: > ${dir}/synced\nwhile :; do read -t 0.1 x <> <(:); done\n`,
  };
}

const kubelet = (dir: string): string => `
child=
while :; do
  if [ -e ${dir}/manifests/kube-proxy.yaml ]; then
    if [ -z "$child" ] || ! kill -0 $child 2>/dev/null; then
      bash -c 'exec -a kube-proxy bash ${dir}/proxy.sh' & child=$!
    fi
  elif [ -n "$child" ]; then kill $child; wait $child; child=; fi
  sleep 0.05
done
`;

export class AdoptNode {
  readonly directory = mkdtempSync(`${tmpdir()}/sla-`);
  readonly host: Host;
  #kubelet: Daemon | undefined;

  private constructor(host: Host) {
    this.host = host;
  }

  /** A machine with its loopback interface up. */
  static async start(): Promise<AdoptNode> {
    const node = new AdoptNode(await Host.start('adopt'));
    await node.tool(['ip', 'link', 'set', 'lo', 'up']);
    return node;
  }

  get manifest(): string {
    return `${this.directory}/manifests/kube-proxy.yaml`;
  }

  /** Starts the kubelet, and waits until kube-proxy has written its rules. @param web the endpoints of shop/web that it knows */
  async startKubeProxy(mode: ProxyMode, web: readonly number[] = [1, 2], protocol?: 'udp'): Promise<void> {
    const dir = this.directory;
    const files = standInFiles(mode, dir, web, protocol);
    for (const [name, text] of Object.entries(files)) writeFileSync(`${dir}/${name}`, text);
    rmSync(`${dir}/synced`, { force: true });
    await this.startStaticPod(files['proxy.sh'] ?? '');
    await until(
      'kube-proxy has written its rules',
      async () => (await this.run(['test', '-e', `${dir}/synced`])).exitCode === 0,
    );
  }

  /** Starts the kubelet with the manifest of a kube-proxy. @param script shell text that is kube-proxy */
  async startStaticPod(script: string): Promise<void> {
    mkdirSync(`${this.directory}/manifests`, { recursive: true });
    // One that saw the manifest would start a kube-proxy that outlives it, and holds its output open.
    await this.#kubelet?.stop();
    writeFileSync(`${this.directory}/proxy.sh`, script);
    writeFileSync(this.manifest, 'kind: Pod\n');
    this.#kubelet = this.host.start(['/bin/bash', '-c', kubelet(this.directory)]);
  }

  /** Ends kube-proxy, which the kubelet starts again. */
  async restartStaticPod(): Promise<void> {
    const find = "grep -lsa '^kube-proxy' /proc/[0-9]*/cmdline | cut -d/ -f3";
    const [old = ''] = (await this.tool(['sh', '-c', find])).split('\n');
    await this.tool(['kill', old]);
    await until('kube-proxy runs again', async () => {
      const [pid = old] = (await this.tool(['sh', '-c', find])).split('\n');
      return pid !== '' && pid !== old;
    });
  }

  /** Runs a tool. @returns its output */
  async tool(command: readonly string[], input?: string): Promise<string> {
    return this.host.run(command, input === undefined ? {} : { input });
  }

  async run(command: readonly string[]): Promise<ExecResult> {
    return this.host.exec(command, { timeoutMs: commandTimeoutMs });
  }

  startProgram(command: readonly string[]): { kill(signal: 'SIGUSR2'): unknown } & Daemon {
    const daemon = this.host.start(command);
    return { ...daemon, kill: () => daemon.signal('USR2') };
  }

  /** Runs `sluiced` with the node's config. */
  async sluiced(...args: readonly string[]): Promise<ExecResult> {
    return this.run(this.command(...args));
  }

  /** The command line of `sluiced` with the node's config. */
  command(...args: readonly string[]): readonly string[] {
    return [process.execPath, programPath('sluiced'), ...args, '-c', `${this.directory}/sluiced.yaml`];
  }

  writeConfig(backend: string, more = '', name: string = sampleNode): void {
    const fields = [
      'apiVersion: sluice.dev/v1alpha1',
      'kind: SluicedConfig',
      `node: ${name}`,
      `bundle: ${this.directory}/rendered`,
      `state: ${this.directory}/state`,
      `backend: ${backend}`,
      ...(/^signatures:/m.test(more) ? [] : ['signatures: {policy: none}']),
      ...(/^probation:/m.test(more) ? [] : ['probation: {seconds: 0}']),
    ];
    writeFileSync(`${this.directory}/sluiced.yaml`, `${fields.join('\n')}\n${more}`);
  }

  journal(): NodeRecord | undefined {
    try {
      return peek(`${this.directory}/state`);
    } catch {
      return undefined;
    }
  }

  /** Chains and rules of a store in both families, without counters; and tables of nftables with a hook. */
  async rules(backend: string): Promise<string> {
    const save = async (tool: string): Promise<string> =>
      (await this.tool([`${tool}-${backend}-save`]))
        .split('\n')
        .filter((line) => /^(-A|:KUBE|:SLU)/.test(line))
        .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
        .join('\n');
    return `${await save('iptables')}\n${await save('ip6tables')}`;
  }

  async tables(): Promise<readonly string[]> {
    const text = await this.tool(['nft', 'list', 'tables']);
    return text.split('\n').filter((line) => / (kube-proxy|sluice)$/.test(line));
  }

  /** Processes called kube-proxy. */
  async proxies(): Promise<number> {
    return Number((await this.tool(['sh', '-c', "grep -lsa '^kube-proxy' /proc/[0-9]*/cmdline | wc -l"])).trim());
  }

  async close(): Promise<void> {
    await this.host.close();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
