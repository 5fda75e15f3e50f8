/**
 * Stands in for the scheduler and the kubelet of one node, with a real API server: it binds the pods of kube-proxy that are for the node, runs
 * kube-proxy while there is one, and removes a pod that was deleted once its process has ended. Arguments: a kubeconfig, the node, and the
 * command of kube-proxy.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string };
  readonly spec: {
    readonly nodeName?: string;
    readonly affinity?: {
      readonly nodeAffinity?: {
        readonly requiredDuringSchedulingIgnoredDuringExecution?: {
          readonly nodeSelectorTerms: readonly {
            readonly matchFields?: readonly { readonly values: readonly string[] }[];
          }[];
        };
      };
    };
  };
  readonly status: { readonly phase?: string };
}

interface Kubeconfig {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority': string } },
  ];
  readonly users: readonly [{ readonly user: { readonly token: string } }];
}

const [file = '', node = '', program = '', ...args] = process.argv.slice(2);
const { clusters, users } = JSON.parse(readFileSync(file, 'utf8')) as Kubeconfig;
const { server, 'certificate-authority': authority } = clusters[0].cluster;
const ca = readFileSync(authority);
const pods = '/api/v1/namespaces/kube-system/pods';

/** @throws Error for an answer that is none of success, but a pod that is gone */
function ask(method: string, path: string, body?: object, type = 'application/json'): Promise<string> {
  const text = body && JSON.stringify(body);
  const headers = {
    authorization: `Bearer ${users[0].user.token}`,
    'content-type': type,
    // Node says no length for a DELETE by itself, and its body would be the beginning of the next request.
    ...(text === undefined ? {} : { 'content-length': Buffer.byteLength(text) }),
  };
  return new Promise((resolve, reject) => {
    const asked = request(new URL(path, server), { method, ca, headers }, (answer) => {
      let said = '';
      answer.setEncoding('utf8').on('data', (part: string) => (said += part));
      answer.on('end', () => {
        const { statusCode = 0 } = answer;
        if (statusCode < 300 || statusCode === 404 || statusCode === 409) resolve(said);
        else reject(new Error(`${method} ${path}: ${statusCode} ${said}`));
      });
    });
    asked.on('error', reject).end(text);
  });
}

/** The node that the controller has made a pod for. */
const targetOf = ({ spec }: Pod): string | undefined =>
  spec.nodeName ??
  spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms[0]?.matchFields?.[0]
    ?.values[0];

const bind = ({ metadata: { name, uid } }: Pod): Promise<string> =>
  ask('POST', `${pods}/${name}/binding`, {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name, uid },
    target: { apiVersion: 'v1', kind: 'Node', name: node },
  });

const report = ({ metadata: { name } }: Pod): Promise<string> => {
  const ready = { type: 'Ready', status: 'True', lastTransitionTime: new Date().toISOString() };
  const status = { status: { phase: 'Running', conditions: [ready] } };
  return ask('PATCH', `${pods}/${name}/status`, status, 'application/merge-patch+json');
};

const remove = ({ metadata: { name, uid } }: Pod): Promise<string> =>
  ask('DELETE', `${pods}/${name}`, { gracePeriodSeconds: 0, preconditions: { uid } });

let running: { readonly uid: string; readonly child: ChildProcess } | undefined;

function start(uid: string): void {
  const child = spawn(program, args, { argv0: 'kube-proxy', stdio: 'ignore' });
  running = { uid, child };
  child.once('exit', () => {
    if (running?.child === child) running = undefined;
  });
}

async function stop(): Promise<void> {
  const { child } = running ?? {};
  if (!child) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

async function look(): Promise<void> {
  const { items } = JSON.parse(await ask('GET', `${pods}?labelSelector=k8s-app%3Dkube-proxy`)) as {
    readonly items: readonly Pod[];
  };
  const own = items.filter((pod) => targetOf(pod) === node);
  const wanted = own.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  if (running?.uid !== wanted?.metadata.uid) await stop();
  for (const pod of own) if (pod.metadata.deletionTimestamp !== undefined) await remove(pod);
  if (!wanted) return;
  if (wanted.spec.nodeName === undefined) await bind(wanted);
  if (!running) start(wanted.metadata.uid);
  if (wanted.status.phase !== 'Running') await report(wanted);
}

process.once('SIGTERM', () => void stop().then(() => process.exit(0)));
for (;;) {
  await look();
  await sleep(100);
}
