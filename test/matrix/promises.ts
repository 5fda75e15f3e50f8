import type { Cell, Shown } from './rows.ts';

/** The columns of promises: those of fields, and the store of legacy tools, which gives no events. */
export const nodeColumns = ['iptables tree', 'iptables flat', 'iptables legacy', 'ipvs', 'nftables'] as const;
export type NodeColumn = (typeof nodeColumns)[number];

/** A promise of a node with the test that shows it in each column. */
export interface PromiseRow {
  readonly promise: string;
  readonly cells: Readonly<Record<NodeColumn, Cell>>;
}

const shown = (file: string, title: string): Shown => ({ file, title });
const netns = (name: string, title: string): Shown => shown(`test/netns/${name}.test.ts`, title);
const nft = (name: string, title: string): Shown => shown(`test/nft/${name}.test.ts`, title);
const guest = (name: string, title: string): Shown => shown(`test/vm/inside/${name}.test.ts`, title);
const applier = (name: string, title: string): Shown => shown(`packages/applier/src/${name}.test.ts`, title);
/** The fake kernel, which passes the contracts of the real one. */
const onFake = (title: string): Shown => applier('apply/reconcile/every-plane', title);

const row = (promise: string, tree: Cell, flat: Cell, legacy: Cell, ipvs: Cell, nftables: Cell): PromiseRow => ({
  promise,
  cells: { 'iptables tree': tree, 'iptables flat': flat, 'iptables legacy': legacy, ipvs, nftables },
});

/** One test that runs on nf_tables, on legacy tools and in mode nftables; the rest is as given. */
const onKernels = (promise: string, real: Shown, flat: Cell, ipvs: Cell): PromiseRow =>
  row(promise, real, flat, real, ipvs, real);

/** One test that runs in each column. */
const everywhere = (promise: string, test: Shown): PromiseRow => row(promise, test, test, test, test, test);

const differs = (why: string): Cell => ({ differs: why });

export const promises: readonly PromiseRow[] = [
  row(
    'a release serves packets as its files say',
    netns('tree', 'the kernel prints every chain as the linker does'),
    netns('traffic', 'real connections end as traced, and as the table expects'),
    netns('traffic', 'real connections end as traced, and as the table expects'),
    guest('traffic', 'real connections end as traced, and as the table expects'),
    netns('nftables-packets', 'real connections end as traced, and as the table expects'),
  ),
  onKernels(
    'a release changes no connection that it does not mean',
    netns('switch-traffic', 'changes lose and misdirect no connection'),
    differs('chains change in place, table by table: docs/layouts.md says it'),
    guest('kills', 'killed at each step forth and back, it keeps serving and the next run ends on the desired state'),
  ),
  onKernels(
    'a release whose probe fails is rolled back',
    netns('switch-traffic-paths', 'rolled back releases harm no connection'),
    onFake('a release whose probe fails is rolled back, and the Services before are served'),
    guest('endpoints', 'a failed probe restores the endpoints'),
  ),
  onKernels(
    'dead-man switch: the old rules serve again without a daemon',
    netns('deadman', 'the old rules serve again without it, and a restart reports why'),
    differs('layout flat has no switch in the kernel: the next start rolls back'),
    differs('virtual servers have no switch in the kernel: the next start rolls back'),
  ),
  onKernels(
    'a foreign flush around the arrival of a release blames none, and confirms nothing bad',
    netns(
      'flush-at-release',
      'rolls bad releases back and confirms good ones, whenever another program flushes the rules',
    ),
    applier('apply/reconcile/foreign-flush', 'rolls a bad release back, whenever the rules are flushed once'),
    applier('apply/reconcile/foreign-flush', 'rolls a bad release back, whenever the rules are flushed once'),
  ),
  onKernels(
    'drift is repaired',
    netns('drift', 'repairs and reports what another program flushes, edits and removes'),
    onFake('rules that another program removed are repaired'),
    guest('endpoints', 'sets that another program empties or destroys are repaired, and the node reports it'),
  ),
  onKernels(
    'a bundle without most Services is held, and the node stays healthy',
    netns('removal', 'the node keeps its rules and its health beside a bundle %s'),
    applier('apply/reconcile/removal-hold', 'holds a release that takes away most Services, and keeps the rules'),
    applier('apply/reconcile/removal-hold', 'holds a release that takes away most Services, and keeps the rules'),
  ),
  row(
    'a deaf monitor is noticed',
    netns('deaf', 'the rules are back soon, and a stopped one is replaced'),
    netns('deaf', 'the rules are back soon, and a stopped one is replaced'),
    differs('the store of legacy tools gives no events: it is compared every few seconds'),
    guest(
      'deaf',
      'while the monitor is stopped, flushed rules, sets and virtual servers are back, and another one listens',
    ),
    netns('deaf', 'the rules are back soon, and a stopped one is replaced'),
  ),
  onKernels(
    'other endpoints go in at once, as no release',
    netns(
      'probation',
      'an endpoint that is added meanwhile is applied at once, and stays when the release is rolled back',
    ),
    onFake('other endpoints go in at once, as a revision of the generation'),
    onFake('other endpoints go in at once, as a revision of the generation'),
  ),
  onKernels(
    'the last endpoint goes late, the first one comes at once',
    netns(
      'switch-traffic-ends',
      'the last one is removed late, the first one added at once, and no connection is lost',
    ),
    onFake('the last endpoint of a Service goes after its delay'),
    guest(
      'endpoints',
      'the last endpoint of a Service is removed late, the first one added at once, and neither is a release',
    ),
  ),
  onKernels(
    'the same for the endpoints of this node, with policy Local',
    netns(
      'switch-traffic-local',
      'the last endpoint of the node is removed late, the first one added at once, and no connection is lost',
    ),
    applier('apply/endpoints/first-and-last-local', 'in layout %s'),
    applier(
      'apply/endpoints/first-and-last-servers',
      'applies a first real server at once while another Service waits for the last-endpoint delay, also at a node port',
    ),
  ),
  onKernels(
    'session affinity lives through releases',
    netns('switch-affinity', 'every client stays on its endpoint over'),
    applier('apply/endpoints/only-endpoints', 'with session affinity, in layout %s'),
    guest('endpoints', 'persistence keeps a client on its endpoint until its time-out'),
  ),
  onKernels(
    'UDP flows to endpoints that are gone are forgotten',
    netns(
      'flows',
      'a client moves to the new endpoint at once, also from and by way of no endpoint; another Service keeps its entry',
    ),
    netns(
      'flows',
      'a client moves to the new endpoint at once, also from and by way of no endpoint; another Service keeps its entry',
    ),
    guest('endpoints', 'deletes UDP flows to a removed endpoint, also to the last one, and no others'),
  ),
  onKernels(
    'it says whether it serves an address that is announced',
    netns('vip', 'says yes while it serves, and no within 2 s'),
    netns('vip', 'says yes while it serves, and no within 2 s'),
    netns('vip', 'says yes while it serves, and no within 2 s'),
  ),
  row(
    'health-check node ports answer 200 and 503',
    netns('health-port', 'answers 200 with local endpoints, and 503 without'),
    netns('health-port', 'answers 200 with local endpoints, and 503 without'),
    netns('health-port', 'answers 200 with local endpoints, and 503 without'),
    netns('health-port', 'answers 200 with local endpoints, and 503 without'),
    netns('health-port', 'answers 200 with local endpoints, and 503 without'),
  ),
  row(
    'an endpoint at the ClusterIP of another Service is refused',
    applier('apply/admission/endpoint-addresses', 'refuses an endpoint at %s, and claims nothing'),
    applier('apply/admission/endpoint-addresses', 'refuses an endpoint at %s, and claims nothing'),
    onFake('an endpoint at the ClusterIP of another Service is refused, and nothing changes'),
    onFake('an endpoint at the ClusterIP of another Service is refused, and nothing changes'),
    applier('apply/admission/endpoint-addresses', 'refuses an endpoint at %s, and claims nothing'),
  ),
  everywhere(
    'preflight finds Service addresses on interfaces of the node',
    applier('diagnose/preflight/address-clashes', 'finds Service addresses of this node, and tells ClusterIPs'),
  ),
  everywhere(
    'values of connection tracking are those of the release, and come back',
    netns('node-promises', 'sets values of connection tracking, and a rollback restores those before'),
  ),
  everywhere(
    'metrics say what serves',
    netns('node-promises', 'metrics say what serves, and that a repair was needed'),
  ),
  everywhere(
    'preflight finds what an apply would refuse, and changes nothing',
    netns('node-promises', 'preflight names what an apply would meet, and changes nothing'),
  ),
  onKernels(
    'a boot restores the confirmed rules',
    netns('boot', 'restores the confirmed rules; with a damaged generation, those of the previous one'),
    onFake('after a boot the confirmed rules are loaded, not those on probation'),
    onFake('after a boot the confirmed rules are loaded, not those on probation'),
  ),
  row(
    "a node's own watch brings what the API server has, without which the rules stay and boot",
    netns('node-watch', 'without the API server the node keeps and boots its rules'),
    netns('node-watch', 'without the API server the node keeps and boots its rules'),
    netns('node-watch', 'without the API server the node keeps and boots its rules'),
    shown(
      'packages/renderer/src/render/incremental/live-render.test.ts',
      'packets of a node go the same ways by what it watches alone and by all of the cluster',
    ),
    netns('node-watch', 'without the API server the node keeps and boots its rules'),
  ),
  row(
    'live endpoints of signed releases are those of the API server, and nothing else of it goes in',
    netns('live-endpoints', 'the API server changes endpoints of signed Services, and nothing else'),
    netns('live-endpoints', 'the API server changes endpoints of signed Services, and nothing else'),
    netns('live-endpoints', 'the API server changes endpoints of signed Services, and nothing else'),
    shown('test/live-endpoints.test.ts', 'mode $mode, layout $layout: $title in the API server'),
    netns('live-endpoints', 'the API server changes endpoints of signed Services, and nothing else'),
  ),
  row(
    'a Service or an endpoint that the kernel lacks for too long makes the node unhealthy, with its name',
    netns('late-services', 'makes all ports unhealthy, with its name'),
    netns('late-services', 'makes all ports unhealthy, with its name'),
    netns('late-services', 'makes all ports unhealthy, with its name'),
    applier('daemon/release-delayed', 'is unhealthy once the kernel lacks Services of the API server for too long'),
    netns('late-services', 'makes all ports unhealthy, with its name'),
  ),
  row(
    'a damaged file of the state costs that file alone',
    applier('apply/recovery/damaged-files', 'each file, %s, before %s'),
    applier('apply/recovery/damaged-files', 'each file, %s, before %s'),
    netns('boot', 'restores the confirmed rules; with a damaged generation, those of the previous one'),
    applier('apply/recovery/damaged-files', 'each file, %s, before %s'),
    applier('apply/recovery/damaged-files', 'each file, %s, before %s'),
  ),
  row(
    'killed at any call it ends on the old or the new rules',
    shown('test/faults/faults-iptables.test.ts', 'at any point: the old rules or the new ones'),
    shown('test/faults/faults-iptables.test.ts', 'at any point: the old rules or the new ones'),
    shown('test/faults/faults-iptables.test.ts', 'at any point: the old rules or the new ones'),
    guest('kills', 'killed at each step forth and back, it keeps serving and the next run ends on the desired state'),
    shown('test/faults/faults-nftables.test.ts', 'at any point: the old rules or the new ones'),
  ),
  onKernels(
    'a tool in trouble halts nothing and blames no release',
    shown('test/surroundings/surroundings.test.ts', 'heals from %s'),
    applier(
      'apply/reconcile/surroundings-faults',
      'does not quarantine for tools that fail again and again, and writes one entry for a row of tries',
    ),
    shown('test/surroundings/surroundings.test.ts', 'heals from %s'),
  ),
  onKernels(
    'a rollback of an operator keeps the newest endpoints',
    netns(
      'control',
      'does not prompt without a terminal and changes nothing; with --yes it restores the previous generation, which stays',
    ),
    onFake('a rollback of an operator brings back the Services before, with the newest endpoints'),
    onFake('a rollback of an operator brings back the Services before, with the newest endpoints'),
  ),
  onKernels(
    'a cleanup leaves nothing of Sluice, and all that is foreign',
    netns('takeover', 'is cleaned up after a takeover: foreign rules and the chains that they refer to are left'),
    onFake('a rollback to generation 0 removes all Services, and leaves foreign rules'),
    guest('endpoints', 'foreign state stays, and cleanup leaves nothing of ours'),
  ),
  onKernels(
    'recover: a lost state directory costs no connection',
    netns('recover', 'continues from the rules in the kernel, and clients are served all the time'),
    differs('its chains have the names of those of kube-proxy: `sluiced recover` refuses to guess'),
    differs('its chains and sets have the names of those of kube-proxy: `sluiced recover` refuses to guess'),
  ),
  onKernels(
    'the rules of a stopped kube-proxy are taken over, and come back',
    netns('takeover', 'is taken over; rollback 0 restores every line, and foreign rules never change'),
    applier(
      'apply/reconcile/reconciler',
      "takes over kube-proxy's chains with takeOver if none runs, and restores them as generation 0",
    ),
    guest('take-over', 'a stopped kube-proxy in mode ipvs is taken over, and comes back with every entry'),
  ),
  row(
    'adopt: there and back, no new connection is lost',
    netns('adopt', 'there and back loses no new connection, and receipts say who serves'),
    differs('it has the names of kube-proxy, and does not go in front of it'),
    netns('adopt', 'there and back loses no new connection, and receipts say who serves'),
    differs(
      'virtual servers of kube-proxy and of Sluice have one address: mode ipvs is reached by a change of mode afterwards',
    ),
    netns('adopt', 'there and back loses no new connection, and receipts say who serves'),
  ),
  row(
    'new connections are counted by endpoint',
    netns('connection-counts', 'kept when an endpoint comes and another one goes'),
    netns('connection-counts', 'kept when an endpoint comes and another one goes'),
    netns('connection-counts', 'kept when an endpoint comes and another one goes'),
    guest('operate', 'counts connections, live ones and bytes in mode ipvs'),
    nft('endpoint-counts', 'connections of a release on probation are counted, also when it is cancelled'),
  ),
  onKernels(
    'live connections and bytes by Service',
    netns('traffic-counts', 'live connections and bytes, $backend, layout $layout, mode $mode'),
    netns('traffic-counts', 'live connections and bytes, $backend, layout $layout, mode $mode'),
    guest('operate', 'counts connections, live ones and bytes in mode ipvs'),
  ),
  row(
    'show prints what the kernel has of a Service',
    netns('sluiced-show', 'prints the chains and rules in the kernel, and the files of the bundle'),
    netns('sluiced-show', 'prints the chains and rules in the kernel, and the files of the bundle'),
    netns('sluiced-show', 'prints the chains and rules in the kernel, and the files of the bundle'),
    guest('show', 'prints the virtual servers that its files name, and reports a missing one'),
    nft('node', 'shows a Service in the kernel beside the generation'),
  ),
  row(
    'explain names the owner of what a kernel prints',
    netns('explain', 'explains every line that a kernel prints for $name in layout $layout'),
    netns('explain', 'explains every line that a kernel prints for $name in layout $layout'),
    netns('leading-comments', 'a kernel prints the rules of docs/layouts.md as the page shows them'),
    netns('explain', 'explains every set and entry that `ipset %s` prints for 10-ipvs'),
    netns('explain', 'explains every set, map and element that `nft list table` prints for 13-nftables'),
  ),
  row(
    'the doctor names the cause',
    shown('test/doctor/doctor.test.ts', '%s, and %s: both are named'),
    shown('test/doctor/doctor.test.ts', '%s, and %s: both are named'),
    shown('test/doctor/doctor.test.ts', '%s, and %s: both are named'),
    guest('operate', 'the doctor names causes in mode ipvs by Service'),
    shown('test/doctor/doctor.test.ts', '%s, and %s: both are named'),
  ),
  row(
    'a change of mode loses no connection, and is rolled back where a probe fails',
    netns(
      'switch-traffic',
      'times to mode nftables and back, by a release or a rollback, loses and misdirects no connection',
    ),
    applier('apply/transaction/leaving-ipvs-faults', 'in layout %s to mode %s, with a crash at each call'),
    netns(
      'switch-traffic',
      'times to mode nftables and back, by a release or a rollback, loses and misdirects no connection',
    ),
    guest('modes', 'changes from %s to ipvs and back under load, and loses no connection'),
    nft('node', 'from iptables to nftables, back, and back by a failing probe'),
  ),
  row(
    'rules that cannot be loaded are refused before anything changes',
    netns('rehearsal', 'refuses rules that the kernel refuses, with the reason; the next rehearsal succeeds'),
    netns('rehearsal', 'refuses rules that the kernel refuses, with the reason; the next rehearsal succeeds'),
    netns('rehearsal', 'refuses rules that the kernel refuses, with the reason; the next rehearsal succeeds'),
    applier(
      'apply/plan/virtual',
      'refuses a missing scheduler before anything is touched, and does not rehearse known ones again',
    ),
    nft('table', 'refuses the whole text if one element is wrong'),
  ),
  row(
    'one bad Service of a release is rolled back alone',
    differs('a rollback of single Services needs the overlay of mode nftables; the whole release is rolled back'),
    differs('a rollback of single Services needs the overlay of mode nftables; the whole release is rolled back'),
    differs('a rollback of single Services needs the overlay of mode nftables; the whole release is rolled back'),
    differs('a rollback of single Services needs the overlay of mode nftables; the whole release is rolled back'),
    netns(
      'per-service',
      'the others keep the release, it serves as before, and none of its packets is lost after the decision',
    ),
  ),
  row(
    'node ports on ::1 follow a release on probation and its rollback',
    differs('kube-proxy has no node ports on ::1 in this mode'),
    differs('kube-proxy has no node ports on ::1 in this mode'),
    differs('kube-proxy has no node ports on ::1 in this mode'),
    differs('kube-proxy has no node ports on ::1 in this mode'),
    applier('observe/health/localhost-ports', 'is met on ::1 while it is on probation; confirmed: %s'),
  ),
  row(
    'connections to node ports on ::1 outlive a release and a rollback, and end with the daemon',
    differs('kube-proxy has no node ports on ::1 in this mode'),
    differs('kube-proxy has no node ports on ::1 in this mode'),
    differs('kube-proxy has no node ports on ::1 in this mode'),
    differs('kube-proxy has no node ports on ::1 in this mode'),
    netns('localhost-registry', 'pulls from a registry on localhost, over a release, a rollback and a killed daemon'),
  ),
];
