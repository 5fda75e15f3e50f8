/** The pages of the documentation, in the order of its navigation. `docs/README.md` and the site are made of this table. */

export interface Page {
  /** Below the checkout. */
  readonly source: string;
  /** Below the folder of its section, without `.md`. */
  readonly name: string;
  /** In the navigation. */
  readonly title: string;
  /** What a reader finds there, for the index. */
  readonly about: string;
  /** Files that the site has on the same page, below it; a Git forge has each by itself, as their commands are tested apart. */
  readonly below?: readonly { readonly source: string; readonly anchor: string }[];
}

export interface Section {
  readonly title: string;
  readonly folder: string;
  readonly about: string;
  readonly pages: readonly Page[];
}

const page = (source: string, title: string, about: string): Page => ({
  source,
  name: source.replace(/^.*\//, '').replace(/\.md$/, ''),
  title,
  about,
});

const tutorial: Section = {
  title: 'Tutorial',
  folder: 'tutorial',
  about: 'To learn Sluice, in this order.',
  pages: [
    page(
      'docs/tutorial/first-bundle.md',
      'A first bundle',
      'from manifests to rules, a change and its review; without root',
    ),
    page(
      'docs/tutorial/a-node.md',
      'A node',
      'a small cluster on one machine takes a bundle, and takes a bad one back',
    ),
    page('docs/demo.md', 'The demo', 'what each of its steps shows'),
  ],
};

const howTo: Section = {
  title: 'How-to',
  folder: 'how-to',
  about: 'For a task at hand. Every command of the runbooks is run by a test.',
  pages: [
    page('docs/install.md', 'Install', 'from the checkout or a package'),
    page('docs/release-process.md', 'Make a release', 'version, packages, signatures, provenance'),
    {
      ...page(
        'docs/adopt.md',
        'Moving from kube-proxy',
        'by one command or by hand, with a proof before it, and an undo; kubeadm, RKE2, kOps, k3s, Talos',
      ),
      below: [
        { source: 'docs/runbooks/adopt-node.md', anchor: 'moving-a-node-with-sluiced-adopt' },
        { source: 'docs/runbooks/from-kube-proxy.md', anchor: 'moving-a-node-from-kube-proxy' },
      ],
    },
    page(
      'docs/in-place-of-kube-proxy.md',
      'In place of kube-proxy',
      'a cluster without kube-proxy in ten minutes, new or with one that runs',
    ),
    page('docs/daemonset.md', 'As a DaemonSet', 'sluiced in pods: privileges, and what differs from units'),
    { ...page('deploy/chart/README.md', 'The Helm chart', 'its values, and Secrets with credentials'), name: 'chart' },
    page('docs/render.md', 'Render', 'manifests become a bundle'),
    page('docs/cluster.md', 'From a cluster', 'a snapshot, or following the API server'),
    page('docs/review.md', 'Review', 'what a change does, before a node makes it'),
    page(
      'docs/argo-cd-and-flux.md',
      'Argo CD and Flux',
      'what to point them at, what never to let them apply, drift and health',
    ),
    page('docs/release.md', 'Release', 'make, sign, verify, open waves'),
    page(
      'docs/ten-nodes.md',
      'Ten nodes from a registry',
      'from nothing to nodes that fetch, in ten minutes; also from a web server, S3 and Git',
    ),
    page('docs/fetch.md', 'Fetch', 'a node reads its releases from a registry, a web server, Git or a directory'),
    page('docs/apply.md', 'Apply', 'a node takes a bundle, by hand or by the daemon'),
    page('docs/runbooks/first-install.md', 'First install on a node', 'from signed rules to a node that runs them'),
    page('docs/runbooks/carry.md', 'Carry releases', 'by Git, rsync, a registry or files'),
    page('docs/runbooks/air-gapped.md', 'Air-gapped sites', 'releases on a stick, and evidence back'),
    page('docs/runbooks/rollback.md', 'Rollback', 'back to an earlier generation, on one node and on all'),
    page('docs/runbooks/halted.md', 'A halted node', 'automatic work has stopped: find out why, go on'),
    page(
      'docs/protected-table.md',
      'The protected table',
      'of mode nftables; how to change it by hand in an emergency',
    ),
    page('docs/vip.md', 'Announcing an address', 'when kube-vip, FRR, BIRD or keepalived should, and when not'),
    page(
      'docs/scheduler.md',
      'Nodes that wait for their rules',
      'a startup taint, until the confirmed rules are loaded',
    ),
    page('docs/runbooks/key-rotation.md', 'Key rotation', 'new keys, lost keys'),
    {
      ...page('integrations/prometheus/README.md', 'Monitoring', 'alert rules, a ServiceMonitor and dashboards'),
      name: 'monitoring',
    },
    {
      ...page('integrations/README.md', 'Pipelines', 'GitHub, GitLab, pre-commit, kubectl diff, kustomize, kpt'),
      name: 'pipelines',
    },
  ],
};

const reference: Section = {
  title: 'Reference',
  folder: 'reference',
  about: 'To look things up. Most of these pages are generated from the code.',
  pages: [
    page('docs/reference/sluice.md', 'sluice', 'commands and options of the renderer'),
    page('docs/reference/sluiced.md', 'sluiced', 'commands and options of the applier'),
    page('docs/doctor.md', 'Doctor', 'why a Service does not answer; every cause'),
    page('docs/top.md', 'Connections of Services', 'who has most, how evenly they are spread, and what counting costs'),
    page('docs/parity.md', 'Parity', 'whether a node treats packets as a bundle would'),
    page('docs/exit-codes.md', 'Exit codes', 'of both programs, by command'),
    page('docs/reference/sluice-yaml.md', 'sluice.yaml', 'config of the renderer'),
    page('docs/reference/sluiced-yaml.md', 'sluiced.yaml', 'config of a node'),
    page('docs/reference/sysctls.md', 'Sysctls', 'that a profile may set, with their ranges'),
    page('docs/kube-proxy-config.md', 'KubeProxyConfiguration', 'what becomes of each field'),
    page('docs/conformance.md', "Kubernetes' own tests", 'each test of sig-network, with kube-proxy and with Sluice'),
    page(
      'docs/matrix.md',
      'Fields by mode and version',
      'every field of a Service, slice or KubeProxyConfiguration and every promise, with its test in each mode',
    ),
    page('docs/kube-proxy-versions.md', 'Versions of kube-proxy', 'what they do differently'),
    page('docs/kube-proxy-metrics.md', 'Metrics of kube-proxy', 'which ones a node has, and what answers the others'),
    page('docs/policy.md', 'Policy rules', 'what `sluice policy` looks for'),
    page('docs/problems.md', 'Problems', 'every code in a message'),
    page('docs/reference/alarms.md', 'Alarms', 'every code in the status of a node'),
    page('docs/alerts.md', 'Alerts', 'of Prometheus: what each means and what to do'),
    page('docs/reference/metrics.md', 'Metrics', 'of `sluiced` and `sluice watch`'),
    {
      ...page('packages/bundle/README.md', 'Bundle format', 'every file of a bundle and a release'),
      name: 'bundle-format',
    },
  ],
};

const explanation: Section = {
  title: 'Explanation',
  folder: 'explanation',
  about: 'Why it works, and how far.',
  pages: [
    page(
      'docs/explanation/transaction.md',
      'The transaction',
      'how a change reaches the kernel, and how it is taken back',
    ),
    page('docs/layouts.md', 'Layouts', 'the names and the order of rules in the kernel'),
    page('docs/explanation/trust.md', 'Trust', 'who signs what, and what a node believes'),
    page('docs/threats.md', 'Threats', 'attacks, the defence against each, and its test'),
    page('docs/performance.md', 'Performance', 'figures, and how they were measured'),
    page('docs/limits.md', 'Limits', 'what is not supported, and what is bounded'),
    page('docs/limits-review.md', 'Limits of reviews', 'what comparisons of bundles and nodes do not see'),
    page('docs/limits-node.md', 'Limits of a node', 'memory, times, endpoints, drift, counters, the doctor'),
    page('docs/limits-modes.md', 'Limits by mode', 'modes, layouts and schedulers'),
    page('docs/glossary.md', 'Glossary', 'the words of Sluice'),
  ],
};

const decisions: Section = {
  title: 'Decisions',
  folder: 'decisions',
  about: 'Half a page each: the question, the choice, what was given up.',
  pages: [
    page('docs/decisions/0001-guards-name-what-they-depend-on.md', '1. Guards', 'guards name what they depend on'),
    page(
      'docs/decisions/0002-the-contract-package-reads-yaml.md',
      '2. YAML in the contract',
      'the contract package reads YAML',
    ),
    page('docs/decisions/0003-rules-are-compared-by-meaning.md', '3. Comparing rules', 'rules are compared by meaning'),
    page('docs/decisions/0004-rolling-back-is-planning.md', '4. Rollback is planning', 'rolling back uses the planner'),
    page(
      'docs/decisions/0005-two-tables-change-in-three-steps.md',
      '5. Two tables',
      'two tables change in three steps',
    ),
    page('docs/decisions/0006-signatures-are-openssh-s.md', '6. Signatures', 'signatures are those of OpenSSH'),
    page('docs/decisions/0007-a-line-opens-a-wave.md', '7. Waves', 'a signed line opens a wave'),
    page('docs/decisions/0008-one-form-of-tar.md', '8. Archives', 'one form of tar'),
    page('docs/decisions/0009-a-unit-rehearses.md', '9. Rehearsal', 'a unit of its own rehearses'),
    page('docs/decisions/0010-endpoints-need-no-chain.md', '10. Endpoints', 'endpoints need no chain'),
    page('docs/decisions/0011-lists-are-not-reaped.md', '11. Affinity lists', 'lists are not reaped'),
    page('docs/decisions/0012-a-look-sends-no-packet.md', '12. Looking', 'a look sends no packet'),
    page(
      'docs/decisions/0013-order-is-judged-by-its-difference.md',
      '13. Order of rules',
      'order is judged by its difference',
    ),
    page('docs/decisions/0014-state-stays-in-files.md', '14. State', 'state stays in files'),
    page(
      'docs/decisions/0015-the-client-library-reads-credentials.md',
      '15. Client library',
      'the client library reads credentials',
    ),
    page(
      'docs/decisions/0016-an-unchanged-value-keeps-its-identity.md',
      '16. Change',
      'an unchanged value keeps its identity',
    ),
    page(
      'docs/decisions/0017-one-table-of-elements.md',
      '17. Mode nftables',
      'one table, and everything about Services is elements',
    ),
    page(
      'docs/decisions/0018-one-view-of-services.md',
      '18. Services',
      'one view of them, and what reads lines beside it',
    ),
    page(
      'docs/decisions/0019-schedulers-by-annotation.md',
      '19. Schedulers',
      'annotations that hold in every mode, and what names a weight',
    ),
    page(
      'docs/decisions/0020-a-part-is-a-generation.md',
      '20. Partial generations',
      'a release without the Services that failed',
    ),
    page(
      'docs/decisions/0021-a-comparison-opens-a-take-over.md',
      '21. Take-overs',
      'who says that a bundle serves a node as kube-proxy did, and how a move survives a crash',
    ),
    page(
      'docs/decisions/0022-modes-are-asked-not-compared.md',
      '22. Modes',
      'which tables say what differs between modes, and what a further data plane must add',
    ),
    page(
      'docs/decisions/0023-a-shell-starts-conntrack.md',
      '23. A shell for small tools',
      'why sluiced keeps a small process that starts conntrack and others, and what it takes',
    ),
    page('docs/decisions/0024-events-of-js-yaml.md', '24. YAML', 'js-yaml reads manifests, from its events'),
    page(
      'docs/decisions/0025-programs-walk-as-observed-rules.md',
      '25. One walk',
      'how our programs are traced, and why mode nftables is not traced by its rules',
    ),
    page(
      'docs/decisions/0026-node-ports-on-localhost-in-the-table.md',
      '26. Localhost',
      'node ports on 127.0.0.1 in mode nftables, and why `::1` has a listener',
    ),
    page(
      'docs/decisions/0027-rules-stay-unpacked.md',
      '27. Rules in memory',
      'rules are plain values, texts are packed',
    ),
    page(
      'docs/decisions/0028-bisect-beside-git.md',
      '28. Bisect',
      'for what git bisect is enough, and for what it is not',
    ),
    page(
      'docs/decisions/0029-waves-are-chosen-at-the-release.md',
      '29. Choosing and closing waves',
      'who resolves selectors, and how a closing beats older openings',
    ),
  ],
};

export const sections: readonly Section[] = [tutorial, howTo, reference, explanation, decisions];

/** The page that leads to all others: the index of `docs` on a Git forge, and the first page of the site. */
export const indexSource = 'docs/README.md';

/** What the first page says before it lists all others. */
export const landing = {
  what: `Kube-proxy as files. The renderer, \`sluice\`, turns Services and their endpoints into rules for every node, as text that can be reviewed in Git.
The applier, \`sluiced\`, puts them into a node's kernel at once or not at all, watches health, and puts the old rules back where a probe fails.`,
  why: [
    '**A change is read before it is made.** One changed endpoint on 1,000 nodes is a diff of one file, and a report says what it does to traffic, the worst first.',
    '**A bad change takes itself back.** A release whose probe fails is rolled back. Where `sluiced` dies on probation, the kernel falls back to the old rules by itself.',
    '**Packets end as with kube-proxy** 1.28 to 1.38, in modes iptables, ipvs and nftables: [every field](matrix.md), each version [compared](kube-proxy-versions.md#last-compared) with the real one.',
  ],
  picture:
    '![A report: tiles with the number of Services of each severity, and sentences with the Services for which they hold](pictures/report-changes.png)',
  starts: [
    {
      title: 'Try it',
      about: 'A small cluster on one machine, in a minute: rules, a bad change, its rollback.',
      source: 'docs/demo.md',
    },
    {
      title: 'Move from kube-proxy',
      about: 'Node by node, with a proof before it and an undo after it.',
      source: 'docs/adopt.md',
    },
    {
      title: 'Review in Git',
      about: 'A comment on each pull request, gates in the pipeline, Argo CD and Flux beside it.',
      source: 'docs/review.md',
    },
  ],
} as const;

/** Files and folders that a page stands for on the site. */
const shownBy: Readonly<Record<string, string>> = {
  'docs/sluiced.yaml': 'docs/reference/sluiced-yaml.md',
  'docs/schema': 'docs/reference/sluice-yaml.md',
  'docs/schema/sluiceconfig.schema.json': 'docs/reference/sluice-yaml.md',
  docs: indexSource,
};

/** Where a source is on the site, without an ending; undefined where it is not there. */
export function sitePath(source: string): string | undefined {
  return places.get(shownBy[source] ?? source);
}

const ofSections = sections.flatMap(({ folder, pages }) =>
  pages.map(({ source, name, below = [] }) => ({ source, path: `${folder}/${name}`, below })),
);

const places: ReadonlyMap<string, string> = new Map([
  [indexSource, 'index'],
  ...ofSections.map(({ source, path }) => [source, path] as const),
  ...ofSections.flatMap(({ path, below }) => below.map(({ source, anchor }) => [source, `${path}#${anchor}`] as const)),
]);

/** Every page: which files it is made of, where it goes. */
export const allPages: readonly { readonly sources: readonly [string, ...string[]]; readonly path: string }[] = [
  { sources: [indexSource], path: 'index' },
  ...ofSections.map(({ source, path, below }) => ({
    sources: [source, ...below.map((one) => one.source)] as [string, ...string[]],
    path,
  })),
];
