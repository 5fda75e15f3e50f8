import { get } from 'node:http';

/** Where kube-proxy answers scrapers by default (`metricsBindAddress`). */
const scraperUrl = 'http://127.0.0.1:10249/metrics';

/** Its metrics are some hundred kilobytes, the one with the version among the first. */
const bytesMax = 4 * 1024 * 1024;
const waitMs = 1_000;

/**
 * The version of the kube-proxy that runs on this node, `v1.31.4`, as its port for scrapers says.
 * @returns undefined: no kube-proxy answers there within a second
 */
export function kubeProxyVersion(url: string = scraperUrl): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  let text = '';
  const asked = get(url, { agent: false, signal: AbortSignal.timeout(waitMs) }, (response) => {
    response.setEncoding('latin1');
    response.on('data', (part: string) => {
      text += part;
      const version = versionIn(text);
      if (version === undefined && text.length <= bytesMax) return;
      resolve(version);
      asked.destroy();
    });
    response.on('end', () => resolve(undefined)).on('error', () => resolve(undefined));
  });
  asked.on('error', () => resolve(undefined));
  return promise;
}

/** @param text of `/metrics`: `kubernetes_build_info{…,git_version="v1.31.4",…} 1` */
const versionIn = (text: string): string | undefined =>
  /^kubernetes_build_info\{[^}\n]*\bgit_version="(v1\.\d{1,3}\.[-+.\w]{1,40})"/m.exec(text)?.[1];
