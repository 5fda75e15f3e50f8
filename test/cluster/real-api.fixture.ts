import { type ChildProcess, spawn } from 'node:child_process';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../netns/until.ts';
import type { ApiServerPrograms } from '../parity/binaries.ts';
import { makeAuthority } from './certificates.fixture.ts';
import type { TestApi } from './api.fixture.ts';
import { freePort } from './port.fixture.ts';

const adminToken = 'a-token-of-an-administrator';
const sluiceToken = 'a-token-of-sluice';
const startMs = 120_000;

/**
 * A real API server with its etcd, and its state in a directory that is removed at the end.
 * @param address of this network namespace, where the API server listens; etcd is on loopback
 * @param serviceRanges one, or one of each family
 */
export async function realApi(
  programs: ApiServerPrograms,
  address = '127.0.0.1',
  serviceRanges = '10.96.0.0/16',
): Promise<TestApi> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-real-'));
  const ports = { client: await freePort(), peer: await freePort(), secure: await freePort(address) };
  writeIdentities(dir, address);
  const children = [
    start(dir, 'etcd', programs.etcd, etcdArgs(dir, ports)),
    start(dir, 'kube-apiserver', programs.apiserver, apiserverArgs(dir, address, serviceRanges, ports)),
  ];
  const close = async (): Promise<void> => {
    await Promise.all(children.toReversed().map(stop));
    rmSync(dir, { recursive: true });
  };
  const url = `https://${address}:${ports.secure}`;
  const ca = readFileSync(join(dir, 'ca.crt'));
  try {
    // A controller of the server creates the namespace some time after it is ready.
    for (const path of ['/readyz', '/api/v1/namespaces/kube-system']) {
      const isReady = async (): Promise<boolean> =>
        children.some(hasEnded) || (await statusOf(new URL(path, url), ca)) === 200;
      await until(`an answer to ${path}`, isReady, startMs);
      if (children.some(hasEnded)) throw new Error('a process has exited');
    }
  } catch (error) {
    const logs = ['etcd.log', 'kube-apiserver.log'].map((name) => readFileSync(join(dir, name), 'utf8'));
    const log = logs.map((text) => text.trim().split('\n').slice(-10).join('\n')).join('\n');
    await close();
    throw new Error(`Cannot start the API server ${programs.apiserver}:\n${log}`, { cause: error });
  }
  return {
    admin: kubeconfig(dir, 'admin', url, adminToken),
    kubeconfig: kubeconfig(dir, 'sluice', url, sluiceToken),
    close,
  };
}

/** The status of an answer to the administrator; 0 without an answer. */
function statusOf(url: URL, ca: Buffer): Promise<number> {
  return new Promise((resolve) => {
    const asked = request(url, { ca, headers: { authorization: `Bearer ${adminToken}` } }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asked.on('error', () => resolve(0)).end();
  });
}

interface ApiPorts {
  readonly client: number;
  readonly peer: number;
  readonly secure: number;
}

function etcdArgs(dir: string, { client, peer }: ApiPorts): readonly string[] {
  return [
    `--data-dir=${join(dir, 'etcd')}`,
    `--listen-client-urls=http://127.0.0.1:${client}`,
    `--advertise-client-urls=http://127.0.0.1:${client}`,
    `--listen-peer-urls=http://127.0.0.1:${peer}`,
    '--unsafe-no-fsync=true',
  ];
}

/** https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/ */
function apiserverArgs(
  dir: string,
  address: string,
  serviceRanges: string,
  { client, secure }: ApiPorts,
): readonly string[] {
  return [
    `--etcd-servers=http://127.0.0.1:${client}`,
    `--secure-port=${secure}`,
    `--bind-address=${address}`,
    `--advertise-address=${address}`,
    // The server would create an EndpointSlice for itself, which may not have a loopback address.
    '--endpoint-reconciler-type=none',
    `--service-cluster-ip-range=${serviceRanges}`,
    `--cert-dir=${dir}`,
    `--tls-cert-file=${join(dir, 'server.crt')}`,
    `--tls-private-key-file=${join(dir, 'server.key')}`,
    `--token-auth-file=${join(dir, 'tokens.csv')}`,
    '--authorization-mode=RBAC',
    // As kubeadm sets it, for the DaemonSet of kube-proxy.
    '--allow-privileged=true',
    '--disable-admission-plugins=ServiceAccount',
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${join(dir, 'accounts.pub')}`,
    `--service-account-signing-key-file=${join(dir, 'accounts.key')}`,
  ];
}

function writeIdentities(dir: string, address: string): void {
  const notAfter = new Date(Date.now() + 24 * 3_600_000);
  const authority = makeAuthority('test-ca', notAfter);
  const server = authority.issue('server', notAfter, address.split('.').map(Number));
  writeFileSync(join(dir, 'ca.crt'), authority.certificate);
  writeFileSync(join(dir, 'server.crt'), server.certificate);
  writeFileSync(join(dir, 'server.key'), server.key, { mode: 0o600 });
  // In the forms that all versions read: SEC 1 and SubjectPublicKeyInfo.
  const accounts = createPrivateKey(server.key);
  writeFileSync(join(dir, 'accounts.key'), accounts.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });
  writeFileSync(join(dir, 'accounts.pub'), createPublicKey(accounts).export({ type: 'spki', format: 'pem' }));
  const tokens = [`${adminToken},admin,1,"system:masters"`, `${sluiceToken},sluice,2`];
  writeFileSync(join(dir, 'tokens.csv'), `${tokens.join('\n')}\n`, { mode: 0o600 });
}

function kubeconfig(dir: string, name: string, server: string, token: string): string {
  const file = join(dir, `${name}.kubeconfig`);
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, 'certificate-authority': join(dir, 'ca.crt') } }],
    users: [{ name, user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: name } }],
    'current-context': 'x',
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

function start(dir: string, name: string, program: string, args: readonly string[]): ChildProcess {
  const log = openSync(join(dir, `${name}.log`), 'w');
  const child = spawn(program, args, { cwd: dir, stdio: ['ignore', log, log] });
  // A failed start shows as a server that never gets ready, and in its log.
  child.on('error', () => {});
  return child;
}

/** It did not start, or has exited. */
const hasEnded = ({ pid, exitCode, signalCode }: ChildProcess): boolean =>
  pid === undefined || exitCode !== null || signalCode !== null;

async function stop(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const hard = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await ended;
  clearTimeout(hard);
}
