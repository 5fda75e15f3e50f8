import type { ProblemCode } from '@sluice/netfilter';

/** What an alarm of `sluiced` says, and what ends it. */
export interface Alarm {
  readonly meaning: string;
  /** What an operator does about it. */
  readonly next: string;
  /** cause: when its cause is gone; bundle: also when a bundle is taken, or the directory is as it was. */
  readonly ends: 'cause' | 'bundle';
  /** The rules in the kernel are not known to be right: `/healthz` answers 503. */
  readonly isUnhealthy?: true;
  /** It is about the newest bundle: the active generation is in the kernel nonetheless. */
  readonly isAboutNewest?: true;
}

const unhealthy = { ends: 'cause', isUnhealthy: true } as const;
const lasting = { ends: 'cause' } as const;

/** Alarms whose end is not that of a refused bundle. docs/reference/alarms.md is made of this table. */
export const alarms = {
  NODE_HELD: {
    ...unhealthy,
    meaning:
      'the node is halted: a change failed and the kernel refuses its rollback, too; that is tried again at every scan',
    next: 'follow the runbook of the halted node',
  },
  KERNEL: {
    ...unhealthy,
    meaning:
      'the kernel cannot be read, or cannot be made to hold the active generation, such as for a tool that is missing or hangs',
    next: 'read the reason in the alarm; sluiced tries again',
  },
  KERNEL_REFUSES: {
    ...unhealthy,
    meaning: 'the kernel has not taken endpoint updates for 5 minutes or more',
    next: 'read the reason in the alarm; sluiced tries again',
  },
  RULES_UNSEEN: {
    ...unhealthy,
    meaning:
      'the kernel has not been known to hold the active generation for too long: no comparison, and no proof that nothing changed',
    next: 'look for tools that hang, and for a machine that is out of memory or processor time',
  },
  TOOL_SLOW: {
    ...unhealthy,
    meaning: 'a tool that sluiced started has not ended for 30 s, or for half of its time limit; changes wait for it',
    next: 'find out what the tool waits for: a lock, memory, a disk; sluiced kills it at its time limit and tries again',
  },
  NO_GENERATION: {
    ...unhealthy,
    meaning: 'no bundle was confirmed yet, or the kernel was not compared with the active generation since the start',
    next: 'wait for the first bundle, or run sluiced preflight',
  },
  DRIFT_LOOP: {
    ...unhealthy,
    meaning: 'drift loop: another program changes our rules again and again; repairs go on, more slowly',
    next: 'find the program, which the log and sluiced history name where the kernel does, and stop it',
  },
  FOREIGN_RULE_FIRST: {
    ...lasting,
    meaning: 'a foreign rule before our jumps takes packets of Services',
    next: 'remove or move the rule, or set takeOver: order',
  },
  STRANGERS: {
    ...lasting,
    meaning: "chains with kube-proxy's names are foreign: does a kube-proxy run?",
    next: 'stop kube-proxy; the runbook from kube-proxy says how',
  },
  BACKEND_DOUBTFUL: {
    ...lasting,
    meaning: 'something speaks against the rule store in use, nft or legacy',
    next: 'run sluiced backend, which names it and can move the rules',
  },
  NFT_CANNOT_WRITE: {
    ...lasting,
    meaning:
      'nft cannot write any more: the rules of mode nftables stay, and nothing can change them, not even a rollback',
    next: 'install an nft that is at least as new as the newest that writes in this network namespace, or remove what that one wrote',
  },
  AFFINITY_NEARLY_FULL: {
    ...lasting,
    meaning:
      'mode nftables remembers more than 80 % of the clients of session affinity that it can; further ones get no endpoint once it is full',
    next: 'raise nftables.affinityClients of the profile, or shorten the affinity times of Services',
  },
  CONNTRACK_NEARLY_FULL: {
    ...lasting,
    meaning: 'the kernel tracks more than 90 % of the connections that it can; once that is full, it drops new ones',
    next: 'raise net.netfilter.nf_conntrack_max (`sysctls` of the profile), or find the client that opens so many: sluiced top --sort live',
  },
  NO_SWITCH: {
    ...lasting,
    meaning: 'the kernel has no sets, so releases go in table by table and without a dead-man switch',
    next: 'load ip_set and xt_set; sluiced finds them within minutes, or at once when it is restarted',
  },
  NO_BPF: {
    ...lasting,
    meaning: 'the kernel has lost xt_bpf: pods do not reach themselves by Services',
    next: 'load xt_bpf; sluiced finds it within minutes, or at once when it is restarted',
  },
  PROBE_FAILED_AFTER_UPDATE: {
    ...lasting,
    meaning: 'a probe that passed fails since an endpoint update',
    next: 'look at the endpoints that the alarm names; a release or rollback is up to the operator',
  },
  RELEASE_PARTIAL: {
    ...lasting,
    meaning: 'the active generation is a release without some Services, whose probes failed; these stay as before',
    next: 'read which and why in sluiced status, and bring a release with another version of them; `sluiced quarantine --lift` tries them again',
  },
  FLOWS_STALE: {
    ...lasting,
    meaning: 'connections to removed endpoints are still in the kernel and cannot be removed yet',
    next: 'read the reason in the alarm; sluiced tries again',
  },
  ENDPOINT_CHANGES_MANY: {
    ...lasting,
    meaning: 'keys for endpoints changed more than endpoints.alarmShare of all Services within an hour',
    next: 'ask the owner of the key whether that was meant',
  },
  RELEASE_EXPIRED: {
    ...lasting,
    meaning: 'the active release is past its time: newer ones may be held back',
    next: 'find out why no newer release has come',
  },
  RELEASE_SIGNERS_CHANGED: {
    ...lasting,
    meaning: 'the signatures of the active release do not hold any more',
    next: 'bring a release that is signed by the keys of today',
  },
  RECEIPT: {
    ...lasting,
    meaning: 'a receipt could not be written',
    next: 'read the reason in the alarm: a missing key, a full disk, a directory that is not owned by root',
  },
  BUNDLE_UNWATCHED: {
    ...lasting,
    meaning: 'the kernel tells nothing of the bundle directory; it is scanned instead',
    next: 'raise fs.inotify.max_user_watches or max_user_instances',
  },
  HEALTH_PORT: {
    ...lasting,
    meaning: 'a health-check node port cannot be opened',
    next: 'find the program that has the port',
  },
  LOCALHOST_PORT: {
    ...lasting,
    meaning: 'mode nftables: a node port cannot be opened on ::1; the rules of the node are right',
    next: 'find the program that has the port; a port below 1024 needs a capability that the unit does not have',
  },
  STATE_DAMAGED: {
    ...lasting,
    meaning: 'files of the state directory were damaged within the last hour, or could not be written again',
    next: 'look at the disk (dmesg, smartctl); sluiced status names the files; a bundle that goes in writes all that is needed again',
  },
  SOURCE_LATE: {
    ...lasting,
    meaning: 'the source of releases was not read for more than source.lateSeconds; the rules stay as they are',
    next: 'read the reason in the alarm, then run sluiced fetch --now; look at the network, the clock and sluiced-fetch.service',
  },
  SOURCE_REFUSED: {
    ...lasting,
    meaning:
      'the source has a release that this node must not take, such as an older one, a fork, or one without enough signatures',
    next: 'find out how it came there; publish a release with a greater serial that is signed by the keys of today',
  },
  STATUS_PORT: {
    ...lasting,
    meaning: 'the port of /healthz, /livez, /readyz, /metrics and /status cannot be opened',
    next: 'find the program that has the port, or change listen',
  },
  CONTROL_SOCKET: {
    ...lasting,
    meaning: 'the socket for orders of operators cannot be opened',
    next: 'read the reason in the alarm; a path of more than 107 bytes is too long',
  },
  RELEASE_DELAYED: {
    ends: 'bundle',
    isUnhealthy: true,
    isAboutNewest: true,
    meaning:
      'a release that could be served waits for longer than a probation: too many others failed on this node, or the node cannot rehearse it',
    next: 'read in sluiced history why they failed, or run sluiced apply, which waits for no limit; read why no rehearsal runs in the alarm',
  },
  SERVICES_LATE: {
    ...unhealthy,
    isAboutNewest: true,
    meaning:
      'the kernel has lacked Services or endpoints that the bundle directory has for more than lateSeconds, where no signatures are required; or the directory of endpoints.live cannot be read for so long',
    next: 'read their names and the reason in the alarm; sluiced tries again',
  },
  REMOVAL_HELD: {
    ends: 'bundle',
    meaning:
      'a bundle takes away most Services or endpoints; these stay as they are for a while, and the node serves as before',
    next: 'find out whether the source of the bundle sees the whole cluster; if the removal is meant, run sluiced apply',
  },
  ROLLED_BACK: {
    ends: 'bundle',
    meaning: 'the newest release failed on this node and was rolled back',
    next: 'read why in sluiced history, and bring a release that differs',
  },
  BUNDLE_ABSENT: {
    ends: 'bundle',
    meaning: 'the bundle directory is not there; the rules stay as they are',
    next: 'put it back',
  },
} as const satisfies Readonly<Record<string, Alarm>>;

/** A code of the table, or that of a problem for which a bundle was refused. */
export type AlarmCode = ProblemCode | keyof typeof alarms;

const known: Readonly<Record<string, Alarm>> = alarms;

export const isUnhealthy = (code: AlarmCode): boolean => known[code]?.isUnhealthy === true;

/** Whether it says that the kernel may not hold the active generation: then no address is announced, and `/readyz` answers 503. */
export const saysWrong = (code: string): boolean =>
  known[code]?.isUnhealthy === true && known[code].isAboutNewest !== true;

/** Whether it ends when a bundle is taken, or the directory is as it was. */
export const endsWithBundle = (code: AlarmCode): boolean => (known[code]?.ends ?? 'bundle') === 'bundle';

/** Whether it is the code of a problem for which the bundle in the directory was refused. */
export const isProblemAlarm = (code: string): boolean =>
  !Object.hasOwn(known, code) && !(Object.values(formerAlarmCodes) as readonly string[]).includes(code);

/** Renamed alarms, each with its code of the version before. Both are raised for one minor version. */
export const formerAlarmCodes = { DRIFT_LOOP: 'FIGHT' } as const;
