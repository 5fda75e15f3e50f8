import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Host } from '../netns/cluster-host.ts';
import type { Stage } from './stage.ts';

/** What `ask` runs: it needs no curl. */
const askScript =
  'fetch(process.argv[1]).then((reply) => reply.text()).then(console.log, (error) => { console.error(error.cause?.code ?? error.message); process.exit(1); })';

/** Something to try in a second terminal. */
interface Trial {
  readonly title: string;
  /** The last one shows what happened, some seconds later. */
  readonly commands: readonly string[];
}

/** @param store in which the rules are, as the tools are named */
const trials = (store: string): readonly Trial[] => [
  {
    title: 'Which pod answers the client, and which address does it see?',
    commands: ['./on client ask http://10.96.0.31:443/'],
  },
  {
    title: 'What happens when another program removes rules?',
    commands: [`./on node-1 iptables-${store} -t nat -F PREROUTING`, './on node-1 sluiced status | grep repair'],
  },
  {
    title: 'What happens to a release whose endpoints do not answer?',
    commands: [
      "sed -i 's/ port: 8443/ port: 9444/' in/api.yaml && sluice render -f in -c sluice.yaml -o rendered",
      './on node-1 sluiced status',
    ],
  },
];

/** Writes `on`, with which a second terminal reaches the machines. @returns what to try there, and how to end it */
export async function describeKept(stage: Stage): Promise<readonly string[]> {
  const { bin, cluster } = stage;
  const { nodes, pods } = cluster.spec;
  const machines = [...nodes, ...pods].map(({ name }) => name).concat('outside', 'router');
  writeFileSync(
    join(stage.dir, 'on'),
    onScript(
      bin,
      machines.map((name) => cluster.host(name)),
    ),
  );
  chmodSync(join(stage.dir, 'on'), 0o755);
  const { backend } = await stage.nodes[0]!.status();
  return [
    '\nThe cluster stays, and sluiced runs again on both nodes. In another terminal, as root (sluiced needs seconds, so ask twice):',
    `\n   cd ${stage.dir} && PATH=${bin}:$PATH`,
    ...trials(backend ?? 'nft').flatMap(({ title, commands }) => [
      `\n   ${title}`,
      ...commands.map((command) => `     ${command}`),
    ]),
    `\nMachines: ${machines.join(', ')}. Ctrl-C here ends everything, and leaves nothing on this machine.`,
  ];
}

const onScript = (bin: string, hosts: readonly Host[]): string => `#!/bin/sh
# on MACHINE COMMAND …: runs a command on a machine of the demo. sluiced gets the config of its node; ask URL is a request over HTTP.
machine=\${1:-} dir=$(dirname "$(readlink -f "$0")")
PATH=${bin}:$PATH
[ $# -lt 2 ] || shift
case \${1:-} in
  sluiced) set -- "$@" -c "$dir/$machine/sluiced.yaml" ;;
  ask) shift && set -- '${process.execPath}' -e '${askScript}' "$@" ;;
esac
case $machine in
${hosts.map((host) => `  ${host.name}) exec ${host.inside([]).flat().join(' ')} "$@" ;;\n`).join('')}esac
echo "on MACHINE COMMAND …; machines: ${hosts.map(({ name }) => name).join(' ')}" >&2
exit 2
`;
