import type { Accepted } from '@sluice/bundle';
import type { SourceStatus } from '../../fetch/status-file.ts';
import type { NftProtection } from '../../ports/nftables/ports.ts';
import type { Adoption } from '../../ports/adoption.ts';
import { describePartial } from '../../ports/outcome.ts';
import { formerAlarmCodes } from '../../observe/status/alarms.ts';
import { describeDamage } from '../../state/damage.ts';
import type { KernelView } from './compare.ts';
import type { ProbationStatus } from '../../daemon/control/protocol.ts';
import type { DrainState } from '../../ports/drain.ts';
import type { ReportedProbe } from '../../ports/operator.ts';
import type { NewestRelease } from './newest.ts';
import type { DaemonStatus, StatusSummary } from './summary.ts';

/** A label and what it says; undefined: nothing to say, and no line. A label without a letter continues the line above. */
type Row = readonly [label: string, text: string | undefined];

/** The text of `sluiced status`: what the node runs, what its daemon reports, what is open or out of service. */
export function printStatus(summary: StatusSummary): string {
  const rows = [...nodeRows(summary), ...daemonRows(summary.daemon), ...openRows(summary)];
  // A reason may have the output of a tool or a server in it: no line of it is another row.
  return rows
    .flatMap(([label, text]) =>
      text === undefined ? [] : [`${label.padEnd(11)} ${text.replaceAll(/\s*\n\s*/g, ' ')}\n`],
    )
    .join('');
}

function nodeRows(summary: StatusSummary): readonly Row[] {
  const { generation, version, serial, newest, partial, adoption, daemon, waitsUntil, release } = summary;
  return [
    ['node', summary.node],
    ['generation', generation === null ? 'none yet' : `${generation}, version ${version}${serialNote(serial)}`],
    ['newest', newest && newest.fate !== 'active' ? describeNewest(newest) : undefined],
    ['rule store', summary.backend ?? 'not selected yet'],
    ['partial', partial ? describePartial(partial) : undefined],
    ['adoption', adoption ? describeAdoption(adoption) : undefined],
    ['kernel', describeKernel(summary.kernel)],
    ['daemon', describeDaemon(daemon, summary.missing)],
    ['signatures', summary.signatures === 'none' ? 'NOT REQUIRED: any bundle is accepted' : 'required'],
    ['rehearsals', summary.rehearse === 'off' ? 'OFF: new rules are applied without a rehearsal' : undefined],
    ['release', release ? describeRelease(release) : undefined],
    ...summary.damagedFiles.map((one): Row => ['damaged', describeDamage(one)]),
    ['back-off', waitsUntil === null ? undefined : `a newer release waits until ${waitsUntil}`],
  ];
}

function daemonRows(daemon: DaemonStatus | null): readonly Row[] {
  const {
    waits,
    source,
    protection,
    rulesSeenSeconds,
    lastRepair,
    alarms = {},
    notes = {},
    draining,
    ineligible,
  } = daemon ?? {};
  return [
    ['waits', waits ? `for wave ${waits.wave} (${waits.name}) to open` : undefined],
    ['source', source ? describeSource(source) : undefined],
    ['receipts', source?.receipts ? `not sent: ${source.receipts.message}` : undefined],
    ['draining', draining ? describeDrain(draining) : undefined],
    ['eligible', ineligible ? `no: load balancers are told to send elsewhere (${ineligible})` : undefined],
    ['table', protection ? describeProtection(protection) : undefined],
    ['rules seen', rulesSeenSeconds === undefined ? undefined : `${rulesSeenSeconds} s ago`],
    [
      'last repair',
      lastRepair ? `${lastRepair.at}: rules were changed by ${lastRepair.by ?? 'another program'}` : undefined,
    ],
    ...currentAlarms(alarms).map(([code, why]): Row => ['alarm', `${code}: ${why}`]),
    ...Object.entries(notes).map(([code, why]): Row => ['note', `${code}: ${why}`]),
  ];
}

function openRows(summary: StatusSummary): readonly Row[] {
  const { probation, open, held, quarantined, quarantinedServices, next, at } = summary;
  return [
    ...(probation
      ? probationRows(probation, Date.parse(at))
      : ([
          ['open', open === null ? undefined : `a change to version ${open} is in progress or was interrupted`],
        ] as const)),
    ...(held === null
      ? []
      : ([
          ['halted', held],
          ['', 'fix the cause: sluiced tries again by itself'],
        ] as const)),
    ...Object.entries(quarantined).map(([version, why]): Row => ['quarantined', `${version}: ${why}`]),
    ...quarantinedServices.map(
      ({ service, version, because }): Row => ['quarantined', `${service} ${version}: ${because}`],
    ),
    ...next.map(
      ({ what, at: when }, index): Row => [index === 0 ? 'next' : '', `${what}${inTime(when, Date.parse(at))}`],
    ),
  ];
}

function describeSource({ source, outcome, attempted, succeeded, serial, problem }: SourceStatus): string {
  const has = serial === null ? 'no release yet' : `release ${serial}`;
  if (problem === null) return `${source}: ${has}, asked at ${attempted}`;
  return `${source}: ${has}, last read at ${succeeded ?? 'no time'}; ${outcome}: ${problem.message}`;
}

/** A release on probation: how long, what of it is judged, and what ends it. */
function probationRows({ version, generation, token, progress }: ProbationStatus, nowMs: number): readonly Row[] {
  const rows: readonly Row[] = [
    ['probation', `version ${version}, generation ${generation}, token ${token}`],
    ['', `\`sluiced confirm --token ${token}\` confirms it, \`sluiced cancel\` rolls it back`],
  ];
  if (!progress) return [...rows, ['', 'it is being put in, or ends']];
  const { ends, confirmBy, deadman, probes, sources, without } = progress;
  const leftMs = Date.parse(confirmBy ?? ends) - nowMs;
  return [
    ...rows,
    [
      '',
      leftMs > 0
        ? `${lasting(leftMs)} left, until ${confirmBy ?? ends}`
        : 'its time is over; a probe is not certain yet',
    ],
    ['', `tried for ${sources.length === 0 ? 'all packets' : `packets from ${sources.join(', ')}`}`],
    ['', without.length === 0 ? undefined : `rolled back alone: ${without.join(', ')}`],
    ...probes.map((probe): Row => ['', `probe ${describeProbe(probe)}`]),
    ['', deadman === null ? undefined : `without sluiced the kernel returns to the old rules${inTime(deadman, nowMs)}`],
  ];
}

function describeProbe({ name, healthy, seen, bad, allowed, counts }: ReportedProbe): string {
  if (!counts) return `${name}: ${healthy ? 'good' : 'bad, as before the release'}: ${seen}`;
  const count = bad === 0 ? '' : `, ${bad} bad of ${allowed} that roll back`;
  return `${name}: ${healthy ? 'good' : 'BAD'}${count}: ${seen}`;
}

/** ` in 42 s (2026-11-29T12:00:00.000Z)`; empty without a time. */
function inTime(at: string | null, nowMs: number): string {
  return at === null ? '' : ` in ${lasting(Math.max(Date.parse(at) - nowMs, 0))} (${at})`;
}

function lasting(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

const serialNote = (serial: number | null): string => (serial === null ? '' : `, release ${serial}`);

function describeNewest({ version, generation, fate, because, at }: NewestRelease): string {
  const what = version === null ? 'the bundle in the directory' : `version ${version} (generation ${generation})`;
  return `${what}: ${fate}${at === null ? '' : ` since ${at}`}${because === null ? '' : `: ${because}`}`;
}

function describeDaemon(daemon: DaemonStatus | null, missing: string | null): string {
  if (daemon === null) return missing === null ? 'not running' : `NOT RUNNING, although ${missing}`;
  return daemon.healthy ? 'healthy' : 'not healthy';
}

function describeKernel({ holds, differences, because }: KernelView): string {
  if (holds === false && because !== undefined) return `HOLDS RULES of no generation: ${differences.join('; ')}`;
  if (holds === null) return `not compared: ${because}`;
  return holds ? 'holds the confirmed rules' : `DIFFERS from the confirmed rules: ${differences.join('; ')}`;
}

function describeRelease({ serial, revision, signers, onlyEndpoints }: Accepted): string {
  const what = revision === undefined ? `serial ${serial}` : `serial ${serial}, revision ${revision}`;
  return `${what}, signed by ${signers.join(', ')}${onlyEndpoints ? ' for endpoints only' : ''}`;
}

function describeProtection(protection: NftProtection): string {
  return protection.kind === 'owned'
    ? 'protected: only sluiced can change it'
    : `not protected from other programs: ${protection.why}`;
}

function describeDrain({ since, until, because, untold }: DrainState): string {
  const end = until === null ? '`sluiced undrain` or a boot ends it' : `until ${until}`;
  const note = untold === 0 ? '' : `; ${untold} load balancers were not told yet`;
  return `load balancers are told to send elsewhere since ${since} (${because}), ${end}${note}`;
}

/** What a move from kube-proxy has come to. */
function describeAdoption({ goal, isStored }: Adoption): string {
  if (goal === 'kube-proxy') return 'moving back to kube-proxy: `sluiced adopt --undo` finishes it';
  return isStored
    ? 'kube-proxy is stopped, and its rules are generation 0; `sluiced adopt --undo` moves the node back'
    : 'Sluice is in front of kube-proxy; `sluiced adopt` goes on, `sluiced adopt --undo` moves the node back';
}

/** Alarms without those that are repeated under a former code. */
function currentAlarms(alarms: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  const renamed = Object.entries(formerAlarmCodes).filter(([code]) => code in alarms);
  const former = new Set<string>(renamed.map(([, code]) => code));
  return Object.entries(alarms).filter(([code]) => !former.has(code));
}
