/** Which place may import which: the tables that `test/architecture.test.ts` holds the sources to, and packages/README.md draws. */

/**
 * The allowed imports. A place is a package's folder, or its file where it has no folder. Imports within a place are free.
 * The list is closed: a new folder needs a line.
 */
export const mayImport: Readonly<Record<string, readonly string[]>> = {
  netfilter: [],
  bundle: ['netfilter'],
  cli: [],
  // How releases and receipts travel; both programs use it.
  transport: ['cli'],
  // The binary: it collects the verbs of three packages.
  sluice: ['renderer/commands', 'renderer/load', 'renderer/exit', 'review/commands', 'delivery/commands', 'cli'],
  'renderer/commands': [
    'cli',
    'cli/log',
    'renderer/cluster',
    'renderer/load',
    'renderer/render',
    'renderer/removal',
    'renderer/emit',
    'renderer/exit',
    // Releases of `sluice watch`.
    'transport',
  ],
  'renderer/cluster': ['transport', 'renderer/render'],
  'renderer/load': ['cli', 'renderer/render', 'transport'],
  'renderer/render': [],
  'renderer/removal': [],
  'renderer/emit': ['renderer/load', 'renderer/render', 'transport'],
  'renderer/exit': ['cli'],
  'delivery/commands': [
    'delivery/emit',
    'delivery/fleet',
    'transport',
    'renderer/commands',
    'renderer/emit',
    'renderer/exit',
    'renderer/load',
    'cli',
  ],
  'delivery/emit': ['delivery/fleet', 'renderer/emit', 'renderer/load', 'transport'],
  'delivery/fleet': [],
  'review/commands': [
    'review',
    'review/emit',
    // Receipts say what a node ran at a time.
    'delivery/commands',
    'renderer/commands',
    'renderer/exit',
    'renderer/load',
    'renderer/render',
    'transport',
    'cli',
  ],
  'review/emit': ['review', 'delivery/fleet', 'renderer/emit', 'renderer/load', 'cli'],
  // All its other folders, of which `floors` has the imports.
  review: [],
  'applier/main': ['applier/commands', 'applier/memory', 'applier/ports', 'applier/program', 'cli', 'cli/log'],
  'applier/program': ['applier/commands', 'cli'],
  'applier/memory': ['applier/limits'],
  'applier/message': ['cli'],
  'applier/limits': ['applier/paces'],
  'applier/paces': [],
  'applier/config': ['applier/config-forms', 'applier/config-source', 'applier/limits', 'cli'],
  'applier/config-source': ['applier/config-forms', 'transport'],
  'applier/config-forms': [],
  'applier/command-error': ['applier/ports'],
  // The wings, from the verbs down to values. None but the verbs may import more than six others.
  'applier/commands': [
    'applier/apply',
    'applier/command-error',
    'applier/config',
    'applier/daemon',
    'applier/diagnose',
    'applier/fetch',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/memory',
    'applier/message',
    'applier/move',
    'applier/observe',
    'applier/ports',
    'applier/state',
    'cli',
    'cli/log',
  ],
  // Beside the daemon, in a process of its own: releases in, from a source.
  'applier/fetch': ['applier/config-source', 'applier/inbox', 'applier/kernel', 'applier/paces', 'transport', 'cli'],
  'applier/daemon': [
    'applier/apply',
    'applier/command-error',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/observe',
    'applier/ports',
    'applier/state',
  ],
  // Facts in, one cause out; what a node needs before a bundle.
  'applier/diagnose': [
    'applier/apply',
    'applier/config',
    'applier/inbox',
    'applier/kernel',
    'applier/message',
    'applier/ports',
    'applier/state',
  ],
  // From kube-proxy and back: transactions in order, the unit or static pod, certificates.
  'applier/move': [
    'applier/apply',
    'applier/inbox',
    'applier/kernel',
    'applier/message',
    'applier/ports',
    'applier/state',
  ],
  'applier/observe': [
    'applier/apply',
    'applier/config',
    'applier/fetch',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/ports',
    'applier/state',
    // For sluice_build_info.
    'cli',
  ],
  'applier/inbox': ['applier/kernel', 'applier/limits', 'applier/state', 'cli'],
  'applier/state': ['applier/apply', 'applier/kernel', 'applier/limits', 'applier/ports'],
  'applier/kernel': ['applier/apply', 'applier/config', 'applier/limits', 'applier/message', 'applier/ports'],
  'applier/apply': ['applier/limits', 'applier/message', 'applier/ports'],
  'applier/ports': ['applier/limits', 'cli'],
};

/** What rules mean, and what bundles are: every other place may import them. */
export const base = ['netfilter', 'bundle'];
export const isBase = (place: string): boolean => ['netfilter', 'bundle', 'cli'].includes(place);

/**
 * The places that are large, by folders: each folder with those that it may import. Files beside the folders are free: the first ones that
 * a reader meets, or what every folder uses.
 */
export const floors: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'netfilter/src/': {
    // The closed grammar of rule files; the words and names of all modes.
    rules: [],
    diagnosis: ['rules'],
    virtual: ['rules'],
    nftables: ['rules', 'virtual'],
    link: ['rules'],
    // What a trace follows, and what it finds.
    packet: ['rules', 'virtual'],
    live: ['packet', 'rules'],
    trace: ['link', 'live', 'nftables', 'packet', 'rules', 'virtual'],
    services: ['link', 'nftables', 'rules', 'virtual'],
  },
  'bundle/src/': {
    seal: [],
    virtual: [],
    release: ['seal'],
    archive: ['release', 'seal'],
    observation: [],
    parity: [],
    certificate: ['parity', 'release'],
  },
  'renderer/src/render/': {
    // The values that pass through a rendering, and the choices that several steps make of them.
    model: [],
    select: ['model'],
    read: ['model'],
    doctor: ['model'],
    layer: ['model', 'read'],
    allocate: ['model', 'read'],
    versions: ['model', 'read'],
    compile: ['model', 'select', 'versions'],
    normalise: ['allocate', 'layer', 'model', 'read', 'select', 'versions'],
    quarantine: ['model', 'read'],
    incremental: ['allocate', 'compile', 'model', 'normalise', 'quarantine', 'read', 'select', 'versions'],
  },
  'transport/src/': {
    files: [],
    http: [],
    registry: ['files', 'http'],
    content: ['files', 'http', 'registry'],
    receipts: ['files', 'http', 'registry'],
  },
  'applier/src/ports/': { ipvs: [], nftables: [] },
  'applier/src/apply/': {
    plan: [],
    // The data planes, one a file: how a state of each changes, and how the kernel shows it.
    planes: ['plan'],
    // New connections by the counters of rules, kept over changes.
    counts: ['partial'],
    order: [],
    endpoints: [],
    partial: ['endpoints'],
    admission: ['partial', 'plan', 'planes'],
    transaction: ['admission', 'endpoints', 'order', 'partial', 'plan', 'planes'],
    recovery: ['admission', 'plan', 'planes', 'transaction'],
    reconcile: ['admission', 'endpoints', 'order', 'plan', 'recovery', 'transaction'],
  },
  'applier/src/observe/': { probe: [], health: [], receipts: [], status: [] },
  'applier/src/move/': { adoption: [], 'kube-proxy': [], parity: [] },
  'applier/src/diagnose/': { doctor: [], examine: ['doctor'], preflight: [] },
  'review/src/': {
    bundle: [],
    facts: ['bundle'],
    flows: ['bundle'],
    // What a kernel holds; parity compares it with a bundle by the differences of modes that proofs know.
    observed: ['bundle'],
    parity: ['bundle', 'flows', 'observed', 'prove'],
    cost: ['bundle', 'flows'],
    diff: ['bundle', 'facts', 'flows'],
    explain: ['bundle', 'facts', 'flows'],
    bisect: ['bundle', 'facts', 'flows', 'trace'],
    failures: ['bundle', 'facts'],
    policy: ['bundle', 'facts', 'failures'],
    prove: ['bundle', 'flows'],
    trace: ['bundle', 'facts', 'flows', 'observed'],
    // What a failure breaks of the policy.
    'what-if': ['bundle', 'facts', 'failures', 'policy'],
    report: ['bundle', 'diff', 'facts', 'failures', 'flows', 'policy', 'what-if'],
  },
};
