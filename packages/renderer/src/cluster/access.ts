import type { Agent, RequestOptions } from 'node:https';
import { KubeConfig, type User } from '@kubernetes/client-node';
import { ClusterFailure } from './failure.ts';
import { findKubeconfig, type Kubeconfig } from './kubeconfig.ts';
import { agentFor, proxyFor } from './proxy.ts';

/** Which cluster, as whom. */
export interface AccessOptions {
  /** A kubeconfig; otherwise what `KUBECONFIG` names, `~/.kube/config`, or the account of the pod. */
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Where the account of the pod lies, for tests. */
  readonly account?: string;
}

/** A way to one API server. */
export interface Access {
  readonly server: string;
  /** Options of a request: trust, client certificate, headers, proxy. Asked for anew each time: tokens expire. */
  readonly options: () => Promise<RequestOptions>;
  /** Forgets credentials that the server refused: a plugin is asked again. */
  readonly renew: () => void;
  /** What the user must be told about it, such as that the server's certificate is not checked. */
  readonly warnings: readonly string[];
}

/**
 * Finds the way to a cluster: client certificates, tokens, token files, exec plugins and the account of a pod; proxies of the
 * kubeconfig and of the environment.
 * @throws ClusterFailure with `CLUSTER_ACCESS` when there is no kubeconfig, no such context, or no https address
 */
export function openAccess(options: AccessOptions, env: NodeJS.ProcessEnv): Access {
  const found = findKubeconfig(options.kubeconfig, env, options.account);
  let config = read(found, options.context);
  const cluster = config.getCurrentCluster();
  if (!cluster?.server.startsWith('https://')) {
    throw new ClusterFailure(
      'CLUSTER_ACCESS',
      `Cannot find a cluster in ${found.from}: its context leads to ${cluster?.server ?? 'none'}, which is no https address`,
      contextHint,
    );
  }
  const proxy = cluster.proxyUrl ?? proxyFor(new URL(cluster.server).hostname, env);
  const agent = agentFor(proxy);
  config = prepared(config, proxy);
  return {
    server: cluster.server,
    options: () => requestOptions(config, agent, found.from),
    renew: () => {
      config = prepared(config, proxy);
    },
    warnings: cluster.skipTLSVerify
      ? [`${found.from} says insecure-skip-tls-verify: the certificate of ${cluster.server} is not checked`]
      : [],
  };
}

const contextHint = 'kubectl config get-contexts shows what there is; --context chooses one';

function read({ text, from }: Kubeconfig, context: string | undefined): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
  } catch (error) {
    throw new ClusterFailure('CLUSTER_ACCESS', `Cannot read ${from}: ${textOf(error)}`, 'Check the kubeconfig');
  }
  // The library passes this field of a user over; its own name for it is a provider.
  const { users } = JSON.parse(text) as { users: { name: string; user?: { tokenFile?: string } }[] };
  const tokenFiles = new Map(users.map(({ name, user }) => [name, user?.tokenFile]));
  config.users = config.users.map((user) => withTokenFile(user, tokenFiles.get(user.name)));
  if (context !== undefined) config.setCurrentContext(context);
  const name = config.getCurrentContext() ?? '';
  if (config.getContextObject(name) === null) {
    const what = name === '' ? 'a current context' : `context ${JSON.stringify(name)}`;
    throw new ClusterFailure('CLUSTER_ACCESS', `Cannot find ${what} in ${from}`, contextHint);
  }
  return config;
}

/** kubectl prefers the file to a token beside it: the file is renewed. */
function withTokenFile(user: User, tokenFile: string | undefined): User {
  if (!tokenFile) return user;
  const { token: _token, ...rest } = user;
  return { ...rest, authProvider: { name: 'tokenFile', config: { tokenFile } } };
}

/**
 * The same configuration, with nothing remembered of earlier credentials, with its proxy, and with a user: without one the
 * library leaves out the trust too.
 */
function prepared(config: KubeConfig, proxy: string | undefined): KubeConfig {
  const context = config.getContextObject(config.getCurrentContext());
  const changed = new KubeConfig();
  changed.loadFromOptions({
    clusters: [{ ...config.getCurrentCluster(), name: 'cluster', ...(proxy === undefined ? {} : { proxyUrl: proxy }) }],
    users: [withPluginInfo({ ...config.getCurrentUser(), name: 'user' })],
    contexts: [{ ...context, name: 'context', cluster: 'cluster', user: 'user' }],
    currentContext: 'context',
  });
  return changed;
}

interface Plugin {
  readonly apiVersion?: string;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
}

/** What plugins read to learn in which version they answer. https://kubernetes.io/docs/reference/config-api/client-authentication.v1/ */
function withPluginInfo(user: User): User {
  const plugin = user.exec as Plugin | null | undefined;
  if (!plugin) return user;
  const info = { apiVersion: plugin.apiVersion, kind: 'ExecCredential', spec: { interactive: false } };
  const env = [...(plugin.env ?? []), { name: 'KUBERNETES_EXEC_INFO', value: JSON.stringify(info) }];
  return { ...user, exec: { ...plugin, env } };
}

async function requestOptions(config: KubeConfig, agent: Agent | undefined, from: string): Promise<RequestOptions> {
  // Said explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch the check off in silence.
  const options: RequestOptions = { rejectUnauthorized: true };
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw new ClusterFailure(
      'CLUSTER_ACCESS',
      `Cannot get credentials from ${from}: ${textOf(error)}`,
      'Check the files and the exec plugin that its user names',
    );
  }
  if (agent !== undefined) options.agent = agent;
  trimToken(options);
  return options;
}

/** Token files that people write end with a newline, which no header may have. */
function trimToken(options: RequestOptions): void {
  const headers = options.headers as Record<string, unknown> | undefined;
  const authorization = headers?.['Authorization'];
  if (headers && typeof authorization === 'string') headers['Authorization'] = authorization.trim();
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
