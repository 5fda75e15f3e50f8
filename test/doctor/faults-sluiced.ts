import { programPath } from '@sluice/testing';
import type { Fault } from './faults.ts';
import type { DoctorNode } from './node.ts';

const nothing = (): undefined => undefined;

/**
 * A copy of a folder of tools stands in its place, in the mount namespace of the node alone, with another nft in it.
 * @param change shell text that changes `$t/nft`
 */
const withNft = (change: string): string =>
  `f=$(dirname "$(command -v nft)"); t=$(mktemp -d); cp -a "$f/." "$t/"; ${change}; mount --bind "$t" "$f"`;

/** From now on the node takes signed releases alone, of one key. */
async function requireSignatures(node: DoctorNode): Promise<void> {
  await node.sh(
    `ssh-keygen -q -t ed25519 -N '' -f ${node.directory}/key; printf 'alice namespaces="sluice-release" %s\\n' "$(cut -d' ' -f1,2 ${node.directory}/key.pub)" > ${node.directory}/allowed; chmod 644 ${node.directory}/allowed`,
  );
  await node.sh(
    `sed -i 's#^signatures:.*#signatures: {allowedSigners: ${node.directory}/allowed}#' ${node.configFile}`,
  );
}

/** Signs a release of the bundle, and puts it where the node looks. */
async function release(node: DoctorNode, serial: number, more = ''): Promise<void> {
  const sluice = `${process.execPath} ${programPath('sluice')}`;
  await node.sh(
    `cd ${node.directory}; rm -rf release; ${sluice} release rendered --serial ${serial} --source ${'0'.repeat(40)} ${more} -o release; ${sluice} sign release --key key; sed -i 's#^bundle:.*#bundle: ${node.directory}/release#' ${node.configFile}`,
  );
}

/** The daemon, its journal, its disk and its bundle directory. */
export const sluicedFaults: readonly Fault[] = [
  { name: 'nothing was ever applied', cause: 'GENERATION_NONE', isUnapplied: true, make: async () => {} },
  {
    name: 'the bundle was changed by hand after it was rendered',
    cause: 'BUNDLE_REFUSED',
    make: (node) => node.sh(`echo '# edited' >> ${node.directory}/rendered/cluster.yaml`),
    asks: nothing,
  },
  {
    name: 'the bundle is being written and never finished',
    cause: 'BUNDLE_REFUSED',
    make: (node) => node.sh(`rm ${node.directory}/rendered/.sluice-complete`),
    asks: nothing,
  },
  {
    name: 'the bundle has no node of this name',
    cause: 'BUNDLE_REFUSED',
    make: (node) =>
      node.sh(
        `sed -i 's/^node: node-a/node: node-z/' ${node.configFile}; cp -r ${node.directory}/state ${node.directory}/kept; sed -i 's/^node: node-z/node: node-a/' ${node.configFile}; rm -r ${node.directory}/rendered/nodes/node-a`,
      ),
    asks: nothing,
  },
  {
    name: 'signatures became required, and the bundle has none',
    cause: 'BUNDLE_REFUSED',
    make: requireSignatures,
    asks: nothing,
  },
  {
    name: 'the active release has expired',
    cause: 'RELEASE_EXPIRED',
    async make(node) {
      await requireSignatures(node);
      await release(node, 7, '--expires 2026-01-01T00:00:00Z');
      await node.sluiced('apply', `${node.directory}/release`);
    },
    asks: nothing,
  },
  {
    name: 'the key of the active release is no longer valid',
    cause: 'RELEASE_SIGNERS_CHANGED',
    async make(node) {
      await requireSignatures(node);
      await release(node, 7);
      await node.sluiced('apply', `${node.directory}/release`);
      await node.sh(`sed -i 's/^alice /&valid-before="20260101Z",/' ${node.directory}/allowed`);
    },
    asks: nothing,
  },
  {
    name: 'a release with an older serial was put in place',
    cause: 'BUNDLE_REFUSED',
    async make(node) {
      await requireSignatures(node);
      await release(node, 7);
      await node.sluiced('apply', `${node.directory}/release`);
      await node.render({ ...node.options, endpoints: ['b1'] });
      await release(node, 6);
    },
    asks: nothing,
  },
  {
    name: 'the bundle directory is gone',
    cause: 'BUNDLE_ABSENT',
    make: (node) => node.sh(`rm -r ${node.directory}/rendered`),
    asks: nothing,
  },
  {
    name: 'a newer bundle was never applied, because no daemon runs',
    cause: 'BUNDLE_WAITS',
    make: (node) => node.render({ ...node.options, endpoints: ['b1'] }),
    asks: nothing,
  },
  {
    name: 'the disk of the state directory is full',
    cause: 'DISK_FULL',
    make: (node) =>
      node.sh(
        `mkdir ${node.directory}/small; mount -t tmpfs -o size=20m tmpfs ${node.directory}/small; cp -a ${node.directory}/state ${node.directory}/small/; sed -i 's#^state: .*#state: ${node.directory}/small/state#' ${node.configFile}; head -c 30m /dev/zero > ${node.directory}/small/log 2>/dev/null || true`,
      ),
    asks: nothing,
  },
  {
    name: 'the file system of the state directory has no inodes left',
    cause: 'DISK_FULL',
    make: (node) =>
      node.sh(
        `mkdir ${node.directory}/small; mount -t tmpfs -o size=200m,nr_inodes=300 tmpfs ${node.directory}/small; cp -a ${node.directory}/state ${node.directory}/small/; sed -i 's#^state: .*#state: ${node.directory}/small/state#' ${node.configFile}; (i=0; while : > ${node.directory}/small/$i; do i=$((i+1)); done) 2>/dev/null || true`,
      ),
    asks: nothing,
  },
  {
    name: 'the state directory became read-only',
    cause: 'DISK_READ_ONLY',
    make: (node) =>
      node.sh(
        `mount --bind ${node.directory}/state ${node.directory}/state; mount -o remount,ro,bind ${node.directory}/state`,
      ),
    asks: nothing,
  },
  {
    name: 'the clock is days behind',
    cause: 'CLOCK_WRONG',
    // The clock of a namespace cannot be set: the state directory was written by a clock that is three days ahead.
    make: (node) => node.sh(`touch -d '+3 days' ${node.directory}/state/*`),
    asks: nothing,
  },
  {
    name: 'the operator asks about a Service that was never rendered',
    cause: 'SERVICE_UNKNOWN',
    make: async () => {},
    asks: ({ drawn }) => `${drawn.namespace}/${drawn.name}-new`,
  },
  {
    name: 'clients use a port that the Service does not have',
    cause: 'SERVICE_UNKNOWN',
    make: async () => {},
    asks: ({ drawn: { clusterIP, port, family } }) =>
      family === 'ipv4' ? `${clusterIP}:${port + 1}` : `[${clusterIP}]:${port + 1}`,
  },
  {
    name: 'the tools of the rule store were removed',
    cause: 'TOOL_MISSING',
    make: (node) => node.sh(withNft('rm -f "$t/nft"')),
    only: ({ mode }) => mode === 'nftables',
  },
  {
    name: 'nft crashes when it writes, as beside a newer one',
    cause: 'TOOL_CANNOT_WRITE',
    make: (node) =>
      node.sh(
        withNft(
          `mv "$t/nft" "$t/nft-real"; printf '#!/bin/sh\\ncase "$*" in *-f*) kill -SEGV $$;; *) exec nft-real "$@";; esac\\n' > "$t/nft"; chmod 755 "$t/nft"`,
        ),
      ),
    only: ({ mode }) => mode === 'nftables',
  },
  {
    name: 'two Services want one external address, and the newer one is left out',
    cause: 'ADDRESS_SHARED',
    service: { isRivalled: true, externalIP: '203.0.113.77' },
    family: 'ipv4',
    make: async () => {},
    asks: (node) => `${node.service}-rival`,
  },
];
