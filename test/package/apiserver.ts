/** The test API server as a process of its own, for a machine's network. It writes its kubeconfig to standard output, and ends with standard input. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { node, serviceOf, slice } from '../cluster/objects.fixture.ts';

const cluster = await LiveCluster.start();
cluster.put('services', serviceOf('a', 1));
cluster.put('endpointslices', slice);
cluster.put('nodes', node);
const authority = readFileSync(join(cluster.server.dir, 'ca.crt')).toString('base64');
const kubeconfig = cluster.server.kubeconfig({ token }, { 'certificate-authority-data': authority });
process.stdout.write(`${readFileSync(kubeconfig, 'utf8')}\n`);
process.stdin.on('data', () => cluster.put('services', serviceOf('b', 2)));
process.stdin.on('end', () => void cluster.server.close());
