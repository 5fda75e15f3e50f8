// On the machine of the API server: what a load balancer is for the nodes of a cluster. balancer.ts ADDRESS PORT KUBECTL…: KUBECTL prints
// addresses of pods, and each new connection goes to one of them by chance.
import { execFile } from 'node:child_process';
import { connect, createServer } from 'node:net';
import { promisify } from 'node:util';

const [address = '', port = '', kubectl = '', ...args] = process.argv.slice(2);

async function chosen(): Promise<string | undefined> {
  const { stdout } = await promisify(execFile)(kubectl, args);
  const pods = stdout.split(/\s+/).filter((pod) => pod !== '');
  return pods[Math.floor(Math.random() * pods.length)];
}

createServer((client) => {
  client.on('error', () => client.destroy());
  void chosen().then(
    (host) => {
      if (host === undefined) return client.destroy();
      const pod = connect({ host, port: Number(port) });
      for (const [one, other] of [
        [client, pod],
        [pod, client],
      ] as const)
        one.on('error', () => other.destroy()).on('close', () => other.destroy());
      return client.pipe(pod).pipe(client);
    },
    () => client.destroy(),
  );
}).listen(Number(port), address);
