import { readFileSync } from 'node:fs';
import { request } from 'node:https';

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: objects of the API server
  readonly object: any;
}

interface Kubeconfig {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority': string } },
  ];
  readonly users: readonly [{ readonly user: { readonly token: string } }];
}

/** What an API server answers to the account of a kubeconfig with a token, such as those of `realApi`. */
export function askApi(
  kubeconfig: string,
  method: string,
  path: string,
  body?: object,
  type = 'application/json',
): Promise<Answer> {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8')) as Kubeconfig;
  const { server, 'certificate-authority': ca } = clusters[0].cluster;
  const headers = { authorization: `Bearer ${users[0].user.token}`, 'content-type': type };
  return new Promise((resolve, reject) => {
    const asked = request(`${server}${path}`, { method, headers, ca: readFileSync(ca) }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += String(chunk)));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, object: JSON.parse(text) }));
    });
    asked.on('error', reject).end(body && JSON.stringify(body));
  });
}
