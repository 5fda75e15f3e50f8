import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import type { Daemon, Host } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { controlAddresses, podCIDRs, serviceCIDRs } from './addresses.ts';
import type { Programs } from './programs.ts';

const adminToken = 'a-token-of-an-administrator';
const server = `https://${controlAddresses[0]}:6443`;

/** A running control plane. */
export interface ControlPlane {
  readonly kubeconfig: string;
  /** By the name of the program: for tests that restart one. */
  readonly daemons: ReadonlyMap<string, LoggedDaemon>;
  /** kubectl as the administrator. @throws Error where it fails */
  readonly kubectl: (args: readonly string[], input?: string) => Promise<string>;
}

/** etcd, API server, controllers and scheduler on a machine. They end with it. Ends once the API server is ready. */
export async function startControlPlane(host: Host, programs: Programs, folder: string): Promise<ControlPlane> {
  mkdirSync(folder, { recursive: true });
  writeIdentities(folder);
  const kubeconfig = join(folder, 'admin.kubeconfig');
  const commands: readonly (readonly [keyof Programs, readonly string[]])[] = [
    ['etcd', etcdArguments(folder)],
    ['kube-apiserver', apiserverArguments(folder)],
    ['kube-controller-manager', controllerArguments(folder, kubeconfig)],
    ['kube-scheduler', [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', `--cert-dir=${folder}`]],
  ];
  const daemons = new Map<string, LoggedDaemon>(
    commands.map(([name, args]) => [name, startLogged(host, join(folder, `${name}.log`), [programs[name], ...args])]),
  );
  const kubectl = async (args: readonly string[], input?: string): Promise<string> => {
    const command = ['env', `HOME=${folder}`, programs.kubectl, `--kubeconfig=${kubeconfig}`, ...args];
    return host.run(command, { timeoutMs: 120_000, ...(input === undefined ? {} : { input }) });
  };
  const isReady = async (): Promise<boolean> =>
    (await host.exec([programs.kubectl, `--kubeconfig=${kubeconfig}`, 'get', '--raw=/readyz'])).exitCode === 0;
  await until('the API server is ready', isReady, 120_000);
  return { kubeconfig, daemons, kubectl };
}

/** A program in the background that can be started again. */
export interface LoggedDaemon extends Daemon {
  /** Once it has ended. */
  start(): void;
}

/** A program in the background whose output goes to a file. */
export function startLogged(host: Host, log: string, argv: readonly string[]): LoggedDaemon {
  const start = (): Daemon => host.start(['sh', '-c', 'exec "$@" >> "$0" 2>&1', log, ...argv]);
  let running = start();
  return {
    signal: (name) => running.signal(name),
    get ended() {
      return running.ended;
    },
    stop: () => running.stop(),
    start: () => void (running = start()),
  };
}

const etcdArguments = (folder: string): readonly string[] => [
  `--data-dir=${join(folder, 'etcd')}`,
  '--unsafe-no-fsync=true',
  '--log-level=warn',
];

/** https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/ */
const apiserverArguments = (folder: string): readonly string[] => [
  '--etcd-servers=http://127.0.0.1:2379',
  `--advertise-address=${controlAddresses[0]}`,
  `--service-cluster-ip-range=${serviceCIDRs.join(',')}`,
  `--tls-cert-file=${join(folder, 'server.crt')}`,
  `--tls-private-key-file=${join(folder, 'server.key')}`,
  `--token-auth-file=${join(folder, 'tokens.csv')}`,
  '--authorization-mode=Node,RBAC',
  '--allow-privileged=true',
  // Names of nodes are in no name server.
  '--kubelet-preferred-address-types=InternalIP',
  '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
  `--service-account-key-file=${join(folder, 'accounts.pub')}`,
  `--service-account-signing-key-file=${join(folder, 'accounts.key')}`,
];

/** Ranges of pods are those of the nodes' own configuration, so that no controller hands them out. */
const controllerArguments = (folder: string, kubeconfig: string): readonly string[] => [
  `--kubeconfig=${kubeconfig}`,
  '--leader-elect=false',
  '--allocate-node-cidrs=false',
  `--cluster-cidr=${podCIDRs.join(',')}`,
  `--service-cluster-ip-range=${serviceCIDRs.join(',')}`,
  `--service-account-private-key-file=${join(folder, 'accounts.key')}`,
  `--root-ca-file=${join(folder, 'ca.crt')}`,
  `--cert-dir=${folder}`,
];

function writeIdentities(folder: string): void {
  const notAfter = new Date(Date.now() + 24 * 3_600_000);
  const authority = makeAuthority('test-ca', notAfter);
  const addresses = [controlAddresses[0], '127.0.0.1', '10.96.0.1'].map((address) => address.split('.').map(Number));
  const own = authority.issue('server', notAfter, ...addresses);
  const secret = { mode: 0o600 };
  writeFileSync(join(folder, 'ca.crt'), authority.certificate);
  writeFileSync(join(folder, 'server.crt'), own.certificate);
  writeFileSync(join(folder, 'server.key'), own.key, secret);
  const accounts = createPrivateKey(own.key);
  writeFileSync(join(folder, 'accounts.key'), accounts.export({ type: 'sec1', format: 'pem' }), secret);
  writeFileSync(join(folder, 'accounts.pub'), createPublicKey(accounts).export({ type: 'spki', format: 'pem' }));
  writeFileSync(join(folder, 'tokens.csv'), `${adminToken},admin,1,"system:masters"\n`, secret);
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, 'certificate-authority': join(folder, 'ca.crt') } }],
    users: [{ name: 'admin', user: { token: adminToken } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'admin' } }],
    'current-context': 'x',
  };
  writeFileSync(join(folder, 'admin.kubeconfig'), JSON.stringify(config), secret);
}
