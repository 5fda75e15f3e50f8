import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { ClusterFailure } from './failure.ts';

/** Which cluster, as whom. */
export interface AccessOptions {
  /** A kubeconfig; otherwise what `KUBECONFIG` names, `~/.kube/config`, or the account of the pod. */
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** A way to one API server. */
export interface Access {
  readonly server: string;
  /** Options of a request: trust, client certificate, headers, proxy. Asked for anew each time: tokens expire. */
  readonly options: () => Promise<RequestOptions>;
  /** What the user must be told about it, such as that the server's certificate is not checked. */
  readonly warnings: readonly string[];
}

/**
 * Finds the way to a cluster: client certificates, tokens, token files, exec plugins and the account of a pod.
 * @throws ClusterFailure when there is no kubeconfig, no such context, or a plugin fails
 */
export function openAccess(options: AccessOptions, env: NodeJS.ProcessEnv): Access {
  const named = options.kubeconfig ?? (env['KUBECONFIG'] || undefined) ?? '~/.kube/config';
  const config = readKubeConfig(options, named);
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw new ClusterFailure(`Cannot find a cluster in ${named}: its context names none`, contextHint);
  if (!cluster.server.startsWith('https://')) {
    throw new ClusterFailure(
      `Cannot read ${cluster.server}: it is no https address`,
      'Give the server an https address',
    );
  }
  const proxy = cluster.proxyUrl ?? proxyFor(new URL(cluster.server).hostname, env);
  return {
    server: cluster.server,
    options: () => requestOptions(withProxy(config, proxy), named),
    warnings: cluster.skipTLSVerify
      ? [`${named} says insecure-skip-tls-verify: the certificate of ${cluster.server} is not checked`]
      : [],
  };
}

const contextHint = 'kubectl config get-contexts shows what there is; --context chooses one';

function readKubeConfig(options: AccessOptions, named: string): KubeConfig {
  const config = new KubeConfig();
  try {
    if (options.kubeconfig === undefined) config.loadFromDefault();
    else config.loadFromFile(options.kubeconfig);
    if (options.context !== undefined) config.setCurrentContext(options.context);
  } catch (error) {
    throw new ClusterFailure(`Cannot read ${named}: ${textOf(error)}`, 'Check the kubeconfig; --kubeconfig names one');
  }
  if (config.getContextObject(config.getCurrentContext()) === null) {
    throw new ClusterFailure(
      `Cannot find context ${JSON.stringify(config.getCurrentContext() ?? '')} in ${named}`,
      contextHint,
    );
  }
  return config;
}

/** The same configuration with a proxy for its cluster, and with a user: without one the library leaves out the trust too. */
function withProxy(config: KubeConfig, proxy: string | undefined): KubeConfig {
  const context = config.getContextObject(config.getCurrentContext());
  const cluster = config.getCurrentCluster();
  const changed = new KubeConfig();
  changed.loadFromOptions({
    clusters: [{ ...cluster, name: 'cluster', ...(proxy === undefined ? {} : { proxyUrl: proxy }) }],
    users: [{ ...config.getCurrentUser(), name: 'user' }],
    contexts: [{ ...context, name: 'context', cluster: 'cluster', user: 'user' }],
    currentContext: 'context',
  });
  return changed;
}

async function requestOptions(config: KubeConfig, named: string): Promise<RequestOptions> {
  // Said explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch the check off in silence.
  const options: RequestOptions = { rejectUnauthorized: true };
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw new ClusterFailure(
      `Cannot get credentials from ${named}: ${textOf(error)}`,
      'Check the files and the exec plugin that its user names',
    );
  }
  return options;
}

/** `HTTPS_PROXY` unless `NO_PROXY` names the host or a domain above it. */
export function proxyFor(host: string, env: NodeJS.ProcessEnv): string | undefined {
  const proxy = env['HTTPS_PROXY'] || env['https_proxy'];
  if (!proxy) return undefined;
  const except = (env['NO_PROXY'] || env['no_proxy'] || '').split(',').map((entry) => entry.trim().replace(/^\./, ''));
  const isExcepted = except.some(
    (entry) => entry !== '' && (entry === '*' || host === entry || host.endsWith(`.${entry}`)),
  );
  return isExcepted ? undefined : proxy;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
