/** The two images: what each takes from packages of Debian, and how its containers start. */

/** What is in an image, beside licences, certificates, and the libraries that its programs need. */
export interface ImagePlan {
  readonly title: string;
  /** Paths of the installed files. */
  readonly ours: readonly string[];
  /** Paths of files of Debian packages. */
  readonly files: readonly string[];
  /** Patterns below the folder of libraries: what programs load by name. */
  readonly loaded: readonly string[];
  /** Symbolic links: path → target. */
  readonly links: Readonly<Record<string, string>>;
  readonly emptyFolders: readonly string[];
  /** World-writable ones. */
  readonly open: readonly string[];
  readonly user: { readonly id: number; readonly home: string };
  /** Whether its programs are those of a node. */
  readonly isOfNode: boolean;
  readonly path: string;
  readonly entrypoint: string;
}

/** The packages of all files below, fetched with all that they need. */
export const packageNames = [
  'base-files',
  'ca-certificates',
  'conntrack',
  'coreutils',
  'dash',
  'git',
  'ipset',
  'iproute2',
  'iptables',
  'ipvsadm',
  'libstdc++6',
  'mount',
  'nftables',
  'openssh-client',
  'util-linux',
] as const;

/** The user of `sluice`; deploy/watch.yaml and deploy/node-watch.yaml have the same. */
export const sluiceId = 65_532;
/** The user of `sluiced fetch` in deploy/node-fetch.yaml: not that of `sluice watch`, which may run on the same node. */
export const fetchId = 65_531;

/** `/etc/passwd` of both images: ssh and ssh-keygen refuse a user without a name. */
export const passwd = `root:x:0:0::/root:/bin/sh
sluice:x:${sluiceId}:${sluiceId}::/work:/bin/sh
sluice-fetch:x:${fetchId}:${fetchId}::/tmp:/bin/sh
`;

const inBin = (name: string): string => `usr/bin/${name}`;

/** Revisions need git, signatures ssh-keygen, jobs of pipelines a shell. Any user can run it: jobs choose theirs. */
const cli: ImagePlan = {
  isOfNode: false,
  title: 'sluice',
  ours: [
    'usr/bin/sluice',
    'usr/lib/sluice',
    'usr/share/doc/sluice/copyright',
    'usr/share/doc/sluice/THIRD-PARTY-LICENSES',
  ],
  files: [
    ...['git', 'ssh', 'ssh-keygen', 'sh', 'cat', 'cp', 'mkdir', 'rm'].map(inBin),
    'usr/lib/git-core/git-remote-https',
  ],
  loaded: [],
  links: {},
  emptyFolders: ['dev', 'proc'],
  open: ['tmp', 'work'],
  user: { id: sluiceId, home: '/work' },
  path: '/usr/bin',
  entrypoint: '/usr/bin/sluice',
};

const stores = ['iptables', 'ip6tables'].flatMap((name) =>
  ['', '-save', '-restore'].map((end) => [name, end] as const),
);

/** What `sluiced` looks for on a node, `watch` needs to push, and what the containers of deploy/ start. */
const node: ImagePlan = {
  isOfNode: true,
  title: 'sluice-node',
  // No units, manual pages and completions. Messages name pages and the commented config.
  ours: ['usr/bin', 'usr/lib/sluice', 'usr/share/sluice', 'usr/share/doc/sluice'],
  files: [
    ...stores.flatMap(([name, end]) => ['nft', 'legacy'].map((store) => `usr/sbin/${name}-${store}${end}`)),
    ...['xtables-monitor', 'conntrack', 'ipset', 'ipvsadm', 'nft'].map((name) => `usr/sbin/${name}`),
    ...['ip', 'ss', 'mount', 'unshare', 'flock', 'prlimit', 'setpriv', 'timeout', 'stdbuf', 'sync'].map(inBin),
    'usr/libexec/coreutils/libstdbuf.so',
    ...['git', 'ssh', 'ssh-keygen', 'sh', 'cat', 'chmod', 'mkdir', 'rm', 'sleep'].map(inBin),
    'usr/lib/git-core/git-remote-https',
  ],
  // Tools of iptables load their modules by name.
  loaded: ['xtables/*.so'],
  // Alternatives, which Debian's maintainer scripts make.
  links: {
    ...Object.fromEntries(stores.map(([name, end]) => [`usr/sbin/${name}${end}`, `${name}-nft${end}`])),
    sbin: 'usr/sbin',
  },
  // Mount points of runtimes and of the pod.
  emptyFolders: ['dev', 'etc/sluice', 'proc', 'run', 'sys', 'var/lib/sluice', 'var/lib/sluice-releases'],
  open: ['tmp'],
  // The state and the rules of a node belong to root, and tools have capabilities as root alone.
  user: { id: 0, home: '/tmp' },
  path: '/usr/sbin:/usr/bin',
  entrypoint: '/usr/bin/sluiced',
};

export const plans = [cli, node] as const;
