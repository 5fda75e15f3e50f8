import type { Finding, ExaminedTarget } from '@sluice/netfilter';
import type { Facts, SluicedFacts } from '../facts.ts';

/** A clock that is behind the last write by more than this is wrong; file systems and NTP differ by less. */
const clockBehindMsMax = 5 * 60_000;

/** Less is too little for a journal, a program and a log line. */
const freeBytesMin = 16 * 1024 * 1024;
const freeInodesMin = 32;

/** The daemon, its journal and its bundle directory. */
export function* sluicedChecks(facts: Facts, target: ExaminedTarget): Iterable<Finding> {
  const { sluiced, disk, clock } = facts;
  const { halted, generation, alarms, quarantinedServices } = sluiced;
  if (halted !== undefined)
    yield { code: 'NODE_HALTED', certainty: 'certain', evidence: [halted], fix: 'sluiced rollback' };
  else if (generation === undefined)
    yield {
      code: 'GENERATION_NONE',
      certainty: 'certain',
      evidence: ['the journal has no confirmed generation', `${sluiced.bundle.directory}: ${sluiced.bundle.kind}`],
      fix: 'sluiced preflight',
    };
  for (const { service, because } of quarantinedServices) {
    const isAsked = target.kind === 'service' && target.service === service;
    yield {
      code: 'SERVICE_QUARANTINED',
      certainty: isAsked ? 'certain' : 'note',
      about: service,
      evidence: [because],
      fix: 'sluiced quarantine --help',
    };
  }
  for (const [code, why] of Object.entries(alarms))
    if (!isJudged(code))
      yield {
        code: 'DAEMON_ALARM',
        certainty: 'likely',
        about: code,
        evidence: [`${code}: ${why}`],
        fix: 'sluiced status',
      };
  if (disk?.isReadOnly)
    yield {
      code: 'DISK_READ_ONLY',
      certainty: 'certain',
      about: disk.path,
      evidence: [`${disk.path} is mounted read-only`],
      fix: `mount -o remount,rw $(findmnt -no TARGET -T ${disk.path})`,
    };
  else if (disk && (disk.freeBytes < freeBytesMin || (disk.inodes > 0 && disk.freeInodes < freeInodesMin)))
    yield {
      code: 'DISK_FULL',
      certainty: 'certain',
      about: disk.path,
      evidence: [`${disk.path} has ${Math.floor(disk.freeBytes / 1024)} KiB and ${disk.freeInodes} inodes free`],
      fix: `du -xh --max-depth=3 $(findmnt -no TARGET -T ${disk.path}) | sort -h | tail`,
    };
  if (clock && clock.stateMs - clock.nowMs > clockBehindMsMax)
    yield {
      code: 'CLOCK_WRONG',
      certainty: 'certain',
      evidence: [
        `now is ${iso(clock.nowMs)}; the state directory was written at ${iso(clock.stateMs)}, which is ${Math.round((clock.stateMs - clock.nowMs) / 60_000)} min later`,
      ],
      fix: 'timedatectl timesync-status',
    };
  yield* toolChecks(facts);
  yield* bundleChecks(sluiced);
}

function* toolChecks({ missingTools = [], cannotWrite = '', modules }: Facts): Iterable<Finding> {
  for (const tool of missingTools)
    yield {
      code: 'TOOL_MISSING',
      certainty: 'certain',
      about: tool,
      evidence: [`${tool} is not installed, or does not run`],
      fix: 'sluiced preflight',
    };
  if (cannotWrite !== '')
    yield { code: 'TOOL_CANNOT_WRITE', certainty: 'likely', evidence: [cannotWrite], fix: 'nft --version' };
  // As after an upgrade of the kernel's package that removed the running one: what is loaded works, and nothing more can be loaded.
  if (modules && modules.installed.length > 0 && !modules.installed.includes(modules.release))
    yield {
      code: 'MODULES_OF_OTHER_KERNEL',
      certainty: 'likely',
      evidence: [`Linux ${modules.release} runs; /lib/modules has ${modules.installed.join(', ')}`],
      fix: 'systemctl reboot',
    };
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** Alarms about which other checks say more. */
const isJudged = (code: string): boolean =>
  /^(?:BUNDLE_|RELEASE_|NODE_HELD|FOREIGN_RULE_FIRST|NFT_CANNOT_WRITE)/.test(code);

function* bundleChecks({
  bundle,
  isDaemonRunning,
  version,
  generation,
  releaseWarnings,
}: SluicedFacts): Iterable<Finding> {
  const { directory } = bundle;
  const evidence = (line: string): readonly string[] => [line, `the active version stays ${version ?? 'none'}`];
  if (bundle.kind === 'refused')
    yield {
      code: 'BUNDLE_REFUSED',
      certainty: 'likely',
      about: bundle.code,
      evidence: evidence(`${bundle.message} [${bundle.code}]; ${bundle.hint}`),
      fix: `sluiced preflight ${directory}`,
    };
  else if (bundle.kind === 'newer' && bundle.quarantined !== undefined)
    yield {
      code: 'BUNDLE_QUARANTINED',
      certainty: 'likely',
      about: bundle.version,
      evidence: evidence(bundle.quarantined),
      fix: `sluiced apply ${directory} --dry-run`,
    };
  else if (bundle.kind === 'newer')
    yield {
      code: 'BUNDLE_WAITS',
      // A running daemon applies it within a scan, or says why it waits.
      certainty: isDaemonRunning ? 'note' : 'likely',
      evidence: evidence(
        `${directory} holds version ${bundle.version}; the daemon is ${isDaemonRunning ? '' : 'not '}running`,
      ),
      fix: isDaemonRunning ? 'sluiced status' : 'systemctl start sluiced',
    };
  else if (bundle.kind === 'absent' && generation !== undefined)
    yield {
      code: 'BUNDLE_ABSENT',
      certainty: 'likely',
      evidence: evidence(`${directory} is missing`),
      fix: `ls -ld ${directory}`,
    };
  // A release stays accepted although its time or the validity of its keys has ended: rules stay, and changes may be withheld.
  for (const { code, message, hint } of releaseWarnings)
    if (code === 'RELEASE_EXPIRED' || code === 'RELEASE_SIGNERS_CHANGED')
      yield { code, certainty: 'likely', evidence: [message, hint], fix: `sluiced preflight ${directory}` };
}
