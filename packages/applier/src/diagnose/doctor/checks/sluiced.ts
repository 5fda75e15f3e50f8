import type { Finding, ExaminedTarget } from '@sluice/netfilter';
import type { Facts } from '../facts.ts';

/** A clock that is behind the last write by more than this is wrong; file systems and NTP differ by less. */
const clockBehindMsMax = 5 * 60_000;

/** Less is too little for a journal, a program and a log line. */
const freeBytesMin = 16 * 1024 * 1024;
const freeInodesMin = 32;

/** The daemon, its journal and its bundle directory. */
export function sluicedChecks(facts: Facts, target: ExaminedTarget): readonly Finding[] {
  const { sluiced, disk, clock } = facts;
  const { halted, generation, alarms, quarantinedServices } = sluiced;
  const found: Finding[] = [];
  if (halted !== undefined)
    found.push({ code: 'NODE_HALTED', certainty: 'certain', evidence: [halted], fix: 'sluiced rollback' });
  else if (generation === undefined)
    found.push({
      code: 'GENERATION_NONE',
      certainty: 'certain',
      evidence: ['the journal has no confirmed generation', bundleLine(sluiced)],
      fix: 'sluiced preflight',
    });
  for (const { service, because } of quarantinedServices) {
    const isAsked = target.kind === 'service' && target.service === service;
    found.push({
      code: 'SERVICE_QUARANTINED',
      certainty: isAsked ? 'certain' : 'note',
      about: service,
      evidence: [because],
      fix: 'sluiced quarantine --help',
    });
  }
  for (const [code, why] of Object.entries(alarms))
    if (!isJudged(code))
      found.push({
        code: 'DAEMON_ALARM',
        certainty: 'likely',
        about: code,
        evidence: [`${code}: ${why}`],
        fix: 'sluiced status',
      });
  if (disk?.isReadOnly)
    found.push({
      code: 'DISK_READ_ONLY',
      certainty: 'certain',
      about: disk.path,
      evidence: [`${disk.path} is mounted read-only`],
      fix: `mount -o remount,rw $(findmnt -no TARGET -T ${disk.path})`,
    });
  else if (disk && (disk.freeBytes < freeBytesMin || (disk.inodes > 0 && disk.freeInodes < freeInodesMin)))
    found.push({
      code: 'DISK_FULL',
      certainty: 'certain',
      about: disk.path,
      evidence: [`${disk.path} has ${Math.floor(disk.freeBytes / 1024)} KiB and ${disk.freeInodes} inodes free`],
      fix: `du -xh --max-depth=3 $(findmnt -no TARGET -T ${disk.path}) | sort -h | tail`,
    });
  if (clock && clock.stateMs - clock.nowMs > clockBehindMsMax)
    found.push({
      code: 'CLOCK_WRONG',
      certainty: 'certain',
      evidence: [
        `now is ${iso(clock.nowMs)}; the state directory was written at ${iso(clock.stateMs)}, which is ${Math.round((clock.stateMs - clock.nowMs) / 60_000)} min later`,
      ],
      fix: 'timedatectl timesync-status',
    });
  return [...found, ...toolChecks(facts), ...moduleChecks(facts), ...bundleChecks(sluiced), ...releaseChecks(sluiced)];
}

/** As after an upgrade of the kernel's package that removed the running one: what is loaded works, and nothing more can be loaded. */
function moduleChecks({ modules }: Facts): readonly Finding[] {
  if (!modules || modules.installed.length === 0 || modules.installed.includes(modules.release)) return [];
  return [
    {
      code: 'MODULES_OF_OTHER_KERNEL',
      certainty: 'likely',
      evidence: [`Linux ${modules.release} runs; /lib/modules has ${modules.installed.join(', ')}`],
      fix: 'systemctl reboot',
    },
  ];
}

function toolChecks({ missingTools = [], cannotWrite = '' }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  for (const tool of missingTools)
    found.push({
      code: 'TOOL_MISSING',
      certainty: 'certain',
      about: tool,
      evidence: [`${tool} is not installed, or does not run`],
      fix: 'sluiced preflight',
    });
  if (cannotWrite !== '')
    found.push({ code: 'TOOL_CANNOT_WRITE', certainty: 'likely', evidence: [cannotWrite], fix: 'nft --version' });
  return found;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** Alarms about which other checks say more. */
const isJudged = (code: string): boolean =>
  /^(?:BUNDLE_|RELEASE_|NODE_HELD|FOREIGN_RULE_FIRST|NFT_CANNOT_WRITE)/.test(code);

const bundleLine = ({ bundle }: Facts['sluiced']): string => `${bundle.directory}: ${bundle.kind}`;

/** A release stays accepted although its time or the validity of its keys has ended: rules stay, and changes may be withheld. */
function releaseChecks({ releaseWarnings, bundle }: Facts['sluiced']): readonly Finding[] {
  return releaseWarnings.flatMap(({ code, message, hint }): Finding[] =>
    code === 'RELEASE_EXPIRED' || code === 'RELEASE_SIGNERS_CHANGED'
      ? [{ code, certainty: 'likely', evidence: [message, hint], fix: `sluiced preflight ${bundle.directory}` }]
      : [],
  );
}

function bundleChecks(sluiced: Facts['sluiced']): readonly Finding[] {
  const { bundle, isDaemonRunning } = sluiced;
  const evidence = (line: string): readonly string[] => [line, `the active version stays ${sluiced.version ?? 'none'}`];
  switch (bundle.kind) {
    case 'refused': {
      const { code, message, hint, directory } = bundle;
      return [
        {
          code: 'BUNDLE_REFUSED',
          certainty: 'likely',
          about: code,
          evidence: evidence(`${message} [${code}]; ${hint}`),
          fix: `sluiced preflight ${directory}`,
        },
      ];
    }
    case 'newer':
      if (bundle.quarantined !== undefined)
        return [
          {
            code: 'BUNDLE_QUARANTINED',
            certainty: 'likely',
            about: bundle.version,
            evidence: evidence(bundle.quarantined),
            fix: `sluiced apply ${bundle.directory} --dry-run`,
          },
        ];
      return [
        {
          code: 'BUNDLE_WAITS',
          // A running daemon applies it within a scan, or says why it waits.
          certainty: isDaemonRunning ? 'note' : 'likely',
          evidence: evidence(
            `${bundle.directory} holds version ${bundle.version}; the daemon is ${isDaemonRunning ? '' : 'not '}running`,
          ),
          fix: isDaemonRunning ? 'sluiced status' : 'systemctl start sluiced',
        },
      ];
    case 'absent':
      return sluiced.generation === undefined
        ? []
        : [
            {
              code: 'BUNDLE_ABSENT',
              certainty: 'likely',
              evidence: evidence(`${bundle.directory} is missing`),
              fix: `ls -ld ${bundle.directory}`,
            },
          ];
    case 'same':
    case 'unread':
      return [];
  }
}
