import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { nodes } from '../parity/clusters.ts';
import { kubeconfig, ownConfig, serverPort } from '../parity/kube-proxy-node.ts';
import { plainService } from '../parity/plain-service.ts';
import { link, type ProgramResult, TestMachine, until } from './machine.fixture.ts';
import { bundleOf, configOf, pods, rulesOf } from './node.fixture.ts';
import { artefact } from './unpack.fixture.ts';

export const unit = 'kube-proxy.service';

/** Files of a machine: path without the first slash → text. */
export type MachineFiles = Readonly<Record<string, string>>;

/** The unit of kube-proxy, as guides that install Kubernetes by hand have it. */
export const unitText = `[Unit]
Description=Kubernetes Kube-Proxy
After=network.target
[Service]
ExecStart=/usr/local/bin/kube-proxy --config=/etc/kube-proxy/config
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
`;

/** The Service of the bundle, with the pods of the machine. */
const shop = [
  ...nodes,
  ...plainService({
    namespace: 'shop',
    name: 'web',
    clusterIPs: ['10.96.0.11', 'fd00:96::a'],
    port: { name: 'http', port: 80, targetPort: 8080 },
    endpoints: { IPv4: ['10.244.0.2', '10.244.0.3'], IPv6: ['fd00:10::1', 'fd00:10::2'] },
    nodeName: 'node-1',
    zone: 'zone-0',
  }),
];

/** What an undo has to give back of a unit. */
export interface UnitState {
  readonly enabled: string;
  readonly active: string;
  readonly result: string;
  /** The unit file and its drop-ins, in their order. */
  readonly text: string;
  /** Folders, files and links of the administrator, with owners, modes and digests. */
  readonly files: string;
}

/** A machine whose kube-proxy is a unit, with an API server for it: both serve shop/web. */
export class ProxyMachine implements AsyncDisposable {
  readonly machine: TestMachine;
  readonly #folder: string;
  #api: ReturnType<typeof startApi> | undefined;

  private constructor(machine: TestMachine, folder: string) {
    this.machine = machine;
    this.#folder = folder;
  }

  /**
   * Boots, installs Sluice beside it, and waits until kube-proxy has written its rules.
   * @param program kube-proxy
   * @param files its unit, and others
   * @param enabled the units that start at the boot
   */
  static async boot(program: string, files: MachineFiles, enabled: readonly string[]): Promise<ProxyMachine> {
    const machine = await TestMachine.boot((disk) => {
      const proxy = {
        'etc/kube-proxy/config': JSON.stringify(ownConfig(proxySetting, '/etc/kube-proxy')),
        'etc/kube-proxy/kubeconfig': JSON.stringify(kubeconfig),
      };
      for (const [path, text] of Object.entries({ ...pods, ...proxy, ...files })) {
        mkdirSync(dirname(join(disk, path)), { recursive: true });
        writeFileSync(join(disk, path), text);
      }
      mkdirSync(join(disk, 'usr/local/bin'), { recursive: true });
      copyFileSync(program, join(disk, 'usr/local/bin/kube-proxy'));
      link('/etc/systemd/system/pod.socket', join(disk, 'etc/systemd/system/sockets.target.wants/pod.socket'));
      for (const name of enabled)
        link(`/etc/systemd/system/${name}`, join(disk, `etc/systemd/system/multi-user.target.wants/${name}`));
      copyFileSync(artefact('_amd64.deb'), join(disk, 'sluice.deb'));
    });
    const proxy = new ProxyMachine(machine, mkdtempSync(join(tmpdir(), 'sluice-proxy-')));
    try {
      writeFileSync(join(proxy.#folder, 'objects.json'), JSON.stringify(shop));
      proxy.startApi();
      await machine.must('dpkg', '-i', '/sluice.deb');
      // Only now, as a package that finds a config starts the daemon.
      machine.write('/etc/sluice/sluiced.yaml', configOf('nft'));
      writeBundle(`${machine.root}/etc/sluice/rendered`, bundleOf([1, 2]));
      await proxy.untilWritten();
      return proxy;
    } catch (error) {
      await proxy[Symbol.asyncDispose]();
      throw error;
    }
  }

  async untilWritten(): Promise<void> {
    await until(
      "kube-proxy's rules",
      async () => /^-A KUBE-SEP-.*10\.244\.0\.3:8080$/m.test(await rulesOf(this.machine, 'nft')),
      60_000,
    );
  }

  /** A power cut, and the next boot: its network is a new one, without an API server. */
  async bootAgain(): Promise<void> {
    await this.machine.must('sync');
    await this.#stopApi();
    await this.machine.cut();
    await this.machine.start();
  }

  /** Starts the API server in the network of this boot. */
  startApi(): void {
    this.#api = startApi(this.machine, this.#folder);
  }

  async adopt(...args: readonly string[]): Promise<ProgramResult> {
    const { exitCode, stdout, stderr } = await this.machine.run('sluiced', 'adopt', ...args);
    return { exitCode, stdout, stderr };
  }

  /** The processes of kube-proxy. */
  async proxies(): Promise<string> {
    return (await this.machine.run('pgrep', '-x', 'kube-proxy')).stdout;
  }

  async state(): Promise<UnitState> {
    const { machine } = this;
    const list = "cd /etc/systemd/system && find . -printf '%P %y %m %u %g %l\\n' | sort";
    const sums = 'cd /etc/systemd/system && find . -type f -print0 | sort -z | xargs -0 sha256sum';
    return {
      enabled: (await machine.run('systemctl', 'is-enabled', unit)).stdout,
      active: await machine.property(unit, 'ActiveState'),
      result: await machine.property(unit, 'Result'),
      text: await machine.must('systemctl', 'cat', unit),
      files: `${await machine.must('sh', '-c', list)}\n${await machine.must('sh', '-c', sums)}`,
    };
  }

  async #stopApi(): Promise<void> {
    this.#api?.kill('SIGKILL');
    await this.#api;
    // Of a server that was killed it is left, and the next one could not listen.
    rmSync(join(this.#folder, 'api.sock'), { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stopApi();
    await this.machine[Symbol.asyncDispose]();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The API server is a program of the real machine in the network of the other one. */
function startApi(machine: TestMachine, folder: string) {
  const server = join(import.meta.dirname, '../parity/api-server.ts');
  const [file, args] = machine.inNetwork(process.execPath, server, join(folder, 'objects.json'), String(serverPort));
  return execa(file, args, { reject: false, stdio: 'ignore' });
}

const proxySetting = { title: 'iptables', config: { mode: 'iptables' } };
