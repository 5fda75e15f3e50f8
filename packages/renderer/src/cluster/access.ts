import type { Agent, RequestOptions } from 'node:https';
import { KubeConfig, type User } from '@kubernetes/client-node';
import { ClusterFailure } from './failure.ts';
import { findKubeconfig, type Kubeconfig } from './kubeconfig.ts';
import { clusterLimits } from './limits.ts';
import { Plugin, type PluginCall } from './plugin.ts';
import { agentFor, proxyFor } from '@sluice/transport/proxy.ts';

// The client library reads the kubeconfig and applies its user: certificates, tokens, auth providers, impersonation, SOCKS proxies. It
// ignores `tokenFile`, does not trim its text, trusts no authority without a user, follows NODE_TLS_REJECT_UNAUTHORIZED, and keeps
// credentials that the server refused: client-node.test.ts, "access.ts". client-node-equal.test.ts compares the options of both.

/** Selects the cluster and the user. */
export interface AccessOptions {
  /** A kubeconfig; default: `KUBECONFIG`, `~/.kube/config`, or the ServiceAccount of the pod. */
  readonly kubeconfig?: string;
  readonly context?: string;
  /** The root directory of a pod, for tests. */
  readonly root?: string;
}

/** How long to wait for credentials. */
export interface CredentialPatience {
  readonly credentialTimeoutMs?: number;
  /** Cancels the wait. */
  readonly signal?: AbortSignal;
}

/** Access to one API server. */
export interface Access {
  readonly server: string;
  /** It is that of the account of a pod: its address is that of a Service. */
  readonly isOfPod?: boolean;
  /**
   * Options of a request: trust, client certificate, headers, proxy. Called for each request, because tokens expire.
   * @throws ClusterFailure when credentials are not available in time
   */
  readonly options: (patience?: CredentialPatience) => Promise<RequestOptions>;
  /** Discards credentials that the server refused: the plugin is called again. */
  readonly renew: () => void;
  /** Warnings for the user, such as that the server's certificate is not checked. */
  readonly warnings: readonly string[];
}

/**
 * Opens access to a cluster. Supports client certificates, tokens, token files, exec plugins and the ServiceAccount of a pod, and proxies
 * of the kubeconfig and of the environment.
 * @throws ClusterFailure with `CLUSTER_ACCESS` when there is no kubeconfig, no such context, or no https address
 */
export function openAccess(options: AccessOptions, env: NodeJS.ProcessEnv): Access {
  const found = findKubeconfig(options.kubeconfig, env, options.root);
  const config = read(found, options.context);
  const cluster = config.getCurrentCluster();
  if (!cluster?.server.startsWith('https://')) {
    throw new ClusterFailure(
      'CLUSTER_ACCESS',
      `Cannot find a cluster in ${found.from}: its context has server ${cluster?.server ?? 'none'}, which is not an https address`,
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
    isOfPod: found.isOfPod === true,
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
      ? [`${found.from} sets insecure-skip-tls-verify: the certificate of ${cluster.server} is not checked`]
      : [],
  };
}

const contextHint = 'Choose a context with --context; kubectl config get-contexts lists them';

function read({ text, from }: Kubeconfig, context: string | undefined): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
  } catch (error) {
    throw new ClusterFailure('CLUSTER_ACCESS', `Cannot read ${from}: ${textOf(error)}`, 'Check the kubeconfig');
  }
  // The library ignores this field of a user; it supports token files as an auth provider.
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

/** Like kubectl, prefers the file to a token beside it, because the file is renewed. */
function withTokenFile(user: User, tokenFile: string | undefined): User {
  if (!tokenFile) return user;
  const { token: _token, ...rest } = user;
  return { ...rest, authProvider: { name: 'tokenFile', config: { tokenFile } } };
}

/** The source of credentials, without cached ones. */
interface CredentialSource {
  readonly config: KubeConfig;
  /** The exec plugin of the user; the rest of the user is in the config. */
  readonly plugin: Plugin | undefined;
}

/** Makes a config with the proxy and with a user: without a user the library also omits the CA. */
function freshCredentials(config: KubeConfig, proxy: string | undefined): CredentialSource {
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
  { config, plugin }: CredentialSource,
  agent: Agent | undefined,
  signal: AbortSignal,
): Promise<RequestOptions> {
  // Set explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise silently disable the check.
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

/** Plugins and token providers depend on other services, which may never answer. */
function inTime<T>(ask: (signal: AbortSignal) => Promise<T>, patience: CredentialPatience): Promise<T> {
  const { credentialTimeoutMs = clusterLimits.credentialTimeoutMs, signal } = patience;
  const late = AbortSignal.timeout(credentialTimeoutMs);
  const end = signal === undefined ? late : AbortSignal.any([late, signal]);
  return new Promise((resolve, reject) => {
    const stop = (): void =>
      reject(new Error(late.aborted ? `timeout after ${credentialTimeoutMs / 1000} s` : 'cancelled'));
    if (end.aborted) return stop();
    end.addEventListener('abort', stop);
    ask(end).then(resolve, reject);
  });
}

function withoutCredentials(from: string, error: unknown): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_ACCESS',
    `Cannot get credentials from ${from}: ${textOf(error)}`,
    'Check the files and the exec plugin of its user',
  );
}

/** Hand-written token files end with a newline, which is not allowed in a header. */
function trimToken(options: RequestOptions): void {
  const headers = options.headers as Record<string, unknown> | undefined;
  const authorization = headers?.['Authorization'];
  if (headers && typeof authorization === 'string') headers['Authorization'] = authorization.trim();
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
