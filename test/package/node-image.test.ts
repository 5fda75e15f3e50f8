// @module-tag all
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, lstatSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { openImage } from './image.fixture.ts';
import { ImageLayout, noImagesBecause, runIn } from './layout.fixture.ts';
import { artefact } from './unpack.fixture.ts';
import { version } from './setup.ts';

/** The image of deploy/sluiced.yaml, whose tools are from packages of Debian that are fetched while it is built. */

const checkout = join(import.meta.dirname, '../..');
const noRoot = process.getuid?.() === 0 ? '' : 'namespaces need root';
const qemu = '/usr/bin/qemu-aarch64-static';

let image: ImageLayout;
beforeEach((context) => {
  if (noImagesBecause) context.skip(noImagesBecause);
  image = new ImageLayout(artefact(`sluice-node-${version}-image.tar`));
});

/** EM_X86_64 and EM_AARCH64 of elf.h. */
const machines = { amd64: 62, arm64: 183 } as const;

test('one index has both architectures, with their configurations', () => {
  expect([...image.manifests.keys()]).toEqual(['amd64', 'arm64']);
  for (const architecture of ['amd64', 'arm64']) {
    expect(image.config(architecture)).toMatchObject({
      architecture,
      config: { User: '0:0', Entrypoint: ['/usr/bin/sluiced'] },
    });
  }
});

describe.each(['amd64', 'arm64'] as const)('the files for %s', (architecture) => {
  test('are ELF files of this machine only, and links that lead to a file', () => {
    const root = image.unpack(architecture);
    const paths = readdirSync(root, { recursive: true, encoding: 'utf8' }).map((name) => join(root, name));
    const wrong = paths.filter((path) => lstatSync(path).isFile() && !isOf(readFileSync(path), machines[architecture]));
    expect(wrong).toEqual([]);
    const links = paths.filter((path) => lstatSync(path).isSymbolicLink());
    expect(links.length).toBeGreaterThan(30);
    expect(links.filter((path) => !existsSync(path) || !realpathSync(path).startsWith(root))).toEqual([]);
    for (const name of ['sluice', 'sluiced', 'git', 'ip', 'unshare'])
      expect(paths).toContain(join(root, 'usr/bin', name));
    for (const name of ['nft', 'ipset', 'ipvsadm', 'conntrack', 'iptables-nft-restore', 'ip6tables-legacy-save'])
      expect(paths).toContain(join(root, 'usr/sbin', name));
  });

  test('of both images have a licence for each Debian package, which the parts list names', () => {
    const roots = [image, openImage()].map((one) => one.unpack(architecture));
    const namesIn = (root: string): readonly string[] => readdirSync(join(root, 'var/lib/dpkg/status.d'));
    const { components } = JSON.parse(readFileSync(artefact('.cdx.json'), 'utf8')) as {
      components: { purl: string }[];
    };
    const purls = components.map(({ purl }) => purl).filter((purl) => purl.includes(`?arch=${architecture}&`));
    const listed = purls.map((purl) => decodeURIComponent(/^pkg:deb\/debian\/(.+)@/.exec(purl)?.[1] ?? purl));
    expect(listed).toEqual([...new Set(roots.flatMap(namesIn))].toSorted());
    expect(listed).toEqual(expect.arrayContaining(['iptables', 'nftables', 'ipset', 'libc6', 'ca-certificates']));
    for (const root of roots)
      for (const name of namesIn(root))
        expect(readFileSync(join(root, 'usr/share/doc', name, 'copyright'), 'utf8').length).toBeGreaterThan(200);
  });
});

/** A file that is no ELF file is of every machine. */
const isOf = (bytes: Buffer, machine: number): boolean =>
  bytes.subarray(0, 4).toString('latin1') !== '\x7fELF' || bytes.readUInt16LE(18) === machine;

test('for arm64, programs start with their own libraries, and tools of netfilter find theirs', (context) => {
  if (!existsSync(qemu)) return context.skip(`${qemu} is missing: apt-get install qemu-user-static`);
  const root = image.unpack('arm64');
  const start = (path: string, ...argv: readonly string[]): string =>
    execFileSync(qemu, ['-L', root, join(root, path), ...argv], { encoding: 'utf8' });
  expect(start('usr/bin/sluiced', '--version')).toBe(`${version}\n`);
  expect(start('usr/sbin/ip6tables-legacy', '--version')).toContain('(legacy)');
  expect(start('usr/bin/git', '--version')).toContain('git version');
  // qemu has no sockets of netfilter, without which these tools do not even print their version: the loader alone runs.
  for (const name of ['iptables-nft', 'nft', 'ipset', 'conntrack', 'ipvsadm']) {
    const libraries = start('usr/lib/ld-linux-aarch64.so.1', '--list', join(root, 'usr/sbin', name));
    expect(libraries).toMatch(/libc\.so\.6 => .*aarch64-linux-gnu/);
    expect(libraries).not.toContain('not found');
  }
});

test('ssh, and ssh-keygen for signatures, know the users that deploy/ has', (context) => {
  if (noRoot) return context.skip(noRoot);
  const known = `for id in 65531 65532; do
    setpriv --reuid $id --regid $id --clear-groups -- sh -ec 'ssh -G host >/dev/null; ssh-keygen -Y find-principals 2>&1 || true'
  done`;
  const said = runIn(image.unpack('amd64'), image.config('amd64').config.Env, known);
  expect(said).not.toContain('No user exists');
});

test('its sluice renders, and names what it lacks', (context) => {
  if (noRoot) return context.skip(noRoot);
  const said = runIn(
    image.unpack('amd64'),
    image.config('amd64').config.Env,
    'sluice watch --help; sluice diff a b 2>&1 || echo "exit code $?"',
  );
  expect(said).toContain('Usage: sluice watch [options]');
  expect(said).toContain("unknown command 'diff' in the image of a node, whose sluice renders alone");
  expect(said).toContain('exit code 2');
});

const config = `apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig
bundle: /var/lib/sluice-releases/work
signatures: { policy: none }
rehearse: namespace
`;

/** A container cannot write sysctls: docs/daemonset.md. */
const settings = (mode: string): string => `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
complete: true
profiles:
  - name: default
    mode: ${mode}
    families: [ipv4]
    clusterCIDR: 10.244.0.0/16
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s }
`;

/** What comes before the output of `show` is printed only where it fails. */
const applied = (show: string): string => `
exec 3>&1 > /tmp/log 2>&1
trap 'code=$?; [ $code = 0 ] || cat /tmp/log >&3' EXIT
sluice render -f /example -c /etc/sluice/sluice.yaml -o /var/lib/sluice-releases/work
sluiced preflight --verbose
sluiced apply /var/lib/sluice-releases/work
cat /tmp/log >&3
${show} >&3`;

test.for([
  ['iptables', 'iptables-nft-save -t nat', '-A SLU-SVC-'],
  ['ipvs', 'ipset list', 'KUBE-CLUSTER-IP'],
  ['nftables', 'nft list table inet sluice', '10.96.'],
] as const)(
  'in a container for amd64, a bundle of mode %s passes preflight and is applied',
  ([mode, show, expected], context) => {
    if (noRoot) return context.skip(noRoot);
    if (mode === 'ipvs' && !existsSync('/proc/net/ip_vs')) return context.skip('this kernel has no IPVS');
    const root = image.unpack('amd64');
    cpSync(join(checkout, 'examples/01-cluster-ip/in'), join(root, 'example'), { recursive: true });
    writeFileSync(join(root, 'etc/sluice/sluiced.yaml'), `${config}node: node-1\n`);
    writeFileSync(join(root, 'etc/sluice/sluice.yaml'), settings(mode));
    const done = runIn(root, image.config('amd64').config.Env, applied(show));
    expect(done).toContain('ok    rehearsals');
    expect(done).not.toContain('FAIL');
    expect(done).toContain(expected);
  },
);

interface Container {
  readonly name: string;
  readonly command: readonly [shell: string, options: string, script: string];
  readonly livenessProbe?: { readonly exec: Pick<Container, 'command'> };
}
interface DaemonSet {
  readonly kind: string;
  readonly spec: {
    readonly template: { readonly spec: Readonly<Record<'initContainers' | 'containers', Container[]>> };
  };
}

test('the containers of deploy/sluiced.yaml that run a shell find their tools', (context) => {
  if (noRoot) return context.skip(noRoot);
  const text = readFileSync(join(checkout, 'deploy/sluiced.yaml'), 'utf8');
  const objects = parseAllDocuments(text).map((document) => document.toJS() as DaemonSet);
  const { initContainers, containers } = (objects.find(({ kind }) => kind === 'DaemonSet') as DaemonSet).spec.template
    .spec;
  const write = initContainers[0]?.command[2] ?? '';
  const follow = containers.find(({ name }) => name === 'releases')?.command[2] ?? '';
  const pause = /sleep (\$\(\(.*\)\)) & wait \$!/.exec(follow);
  const once = follow.replace(pause?.[0] ?? 'sleep', 'break');
  expect(once, 'a loop that ends').not.toBe(follow);
  const probe = containers[0]?.livenessProbe?.exec.command[2] ?? '';
  const root = image.unpack('amd64');
  const done = runIn(
    root,
    image.config('amd64').config.Env,
    `mkdir -p /config /origin /run/sluice; echo 'a: b' > /config/sluiced.yaml; echo key > /config/allowed_signers
    export NODE_NAME=node-9 REPOSITORY=/origin.bundle GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
    read up _ </proc/uptime; echo "\${up%.*}" >/run/sluice/alive; (${probe}) && echo alive; echo 1 >/run/sluice/alive; (${probe}) || echo silent
    (${write}); cat /etc/sluice/sluiced.yaml /etc/sluice/allowed_signers
    git init -q -b main /origin; git -C /origin commit -q --allow-empty -m first; git -C /origin bundle create --quiet /origin.bundle HEAD main
    (${once}); git -C /var/lib/sluice-releases/work log --format=%s
    git -C /origin commit -q --allow-empty -m second; git -C /origin bundle create --quiet /origin.bundle HEAD main
    (${once}); git -C /var/lib/sluice-releases/work log --format=%s; read up _ </proc/uptime; echo "${pause?.[1] ?? ''}"`,
  );
  expect(done).toMatch(/^alive\nsilent\na: b\nnode: "node-9"\nkey\nfirst\nsecond\nfirst\n[456]\n$/);
});
