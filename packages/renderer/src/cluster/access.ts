import type { Agent, RequestOptions } from 'node:https';
import { KubeConfig, type User } from '@kubernetes/client-node';
import { ClusterFailure } from './failure.ts';
import { findKubeconfig, type Kubeconfig } from './kubeconfig.ts';
import { clusterLimits } from './limits.ts';
import { Plugin, type PluginCall } from './plugin.ts';
import { agentFor, proxyFor } from './proxy.ts';

/** Which cluster, as whom. */
export interface AccessOptions {
  /** A kubeconfig; otherwise what `KUBECONFIG` names, `~/.kube/config`, or the account of the pod. */
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Where the account of the pod lies, for tests. */
  readonly account?: string;
}

/** How long credentials are waited for. */
export interface CredentialPatience {
  readonly credentialTimeoutMs?: number;
  /** Nobody waits for them any more. */
  readonly signal?: AbortSignal;
}

/** A way to one API server. */
export interface Access {
  readonly server: string;
  /**
   * Options of a request: trust, client certificate, headers, proxy. Asked for anew each time: tokens expire.
   * @throws ClusterFailure when credentials cannot be got, or not in time
   */
  readonly options: (patience?: CredentialPatience) => Promise<RequestOptions>;
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
  const config = read(found, options.context);
  const cluster = config.getCurrentCluster();
  if (!cluster?.server.startsWith('https://')) {
    throw new ClusterFailure(
      'CLUSTER_ACCESS',
      `Cannot find a cluster in ${found.from}: its context leads to ${cluster?.server ?? 'none'}, which is no https address`,
      contextHint,
    );
  }
  const { hostname, port } = new URL(cluster.server);
  const proxy = cluster.proxyUrl ?? proxyFor(hostname, env, port);
  const agent = agentFor(proxy);
  let credentials = freshCredentials(config, proxy);
  const renew = (): void => {
    credentials = freshCredentials(config, proxy);
  };
  return {
    server: cluster.server,
    options: async (patience = {}) => {
      try {
        return await inTime((signal) => requestOptions(credentials, agent, signal), patience);
      } catch (error) {
        renew();
        throw withoutCredentials(found.from, error);
      }
    },
    renew,
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

/** Where credentials come from, with nothing remembered of earlier ones. */
interface Credentials {
  readonly config: KubeConfig;
  /** What the user's program gives; the rest of the user is in the config. */
  readonly plugin: Plugin | undefined;
}

/** With its proxy, and with a user: without one the library leaves out the trust too. */
function freshCredentials(config: KubeConfig, proxy: string | undefined): Credentials {
  const context = config.getContextObject(config.getCurrentContext());
  const { exec, ...user } = config.getCurrentUser() ?? { name: 'user' };
  const changed = new KubeConfig();
  changed.loadFromOptions({
    clusters: [{ ...config.getCurrentCluster(), name: 'cluster', ...(proxy === undefined ? {} : { proxyUrl: proxy }) }],
    users: [{ ...user, name: 'user' }],
    contexts: [{ ...context, name: 'context', cluster: 'cluster', user: 'user' }],
    currentContext: 'context',
  });
  return { config: changed, plugin: exec ? new Plugin(exec as PluginCall) : undefined };
}

async function requestOptions(
  { config, plugin }: Credentials,
  agent: Agent | undefined,
  signal: AbortSignal,
): Promise<RequestOptions> {
  // Said explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch the check off in silence.
  const options: RequestOptions = { rejectUnauthorized: true };
  if (plugin) {
    const { headers, ...certificate } = await plugin.credentials(signal);
    Object.assign(options, certificate, { headers: { ...headers } });
  }
  await config.applyToHTTPSOptions(options);
  if (agent !== undefined) options.agent = agent;
  trimToken(options);
  return options;
}

/** Plugins and providers of tokens ask others, who may never answer. */
function inTime<T>(ask: (signal: AbortSignal) => Promise<T>, patience: CredentialPatience): Promise<T> {
  const { credentialTimeoutMs = clusterLimits.credentialTimeoutMs, signal } = patience;
  const late = AbortSignal.timeout(credentialTimeoutMs);
  const end = signal === undefined ? late : AbortSignal.any([late, signal]);
  return new Promise((resolve, reject) => {
    const stop = (): void =>
      reject(new Error(late.aborted ? `they did not come within ${credentialTimeoutMs / 1000} s` : 'it was stopped'));
    if (end.aborted) return stop();
    end.addEventListener('abort', stop);
    ask(end).then(resolve, reject);
  });
}

function withoutCredentials(from: string, error: unknown): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_ACCESS',
    `Cannot get credentials from ${from}: ${textOf(error)}`,
    'Check the files and the exec plugin that its user names',
  );
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
