import { compareText } from '@sluice/netfilter';
import type { ProbationStatus } from '../../control/protocol.ts';
import type { DaemonStatus, NextEvent } from './summary.ts';

/** What the next events follow from. */
interface Sources {
  readonly probation: ProbationStatus | null;
  readonly held: string | null;
  readonly waitsUntil: string | null;
  /** The daemon's report; null where none answers. */
  readonly daemon: DaemonStatus | null;
}

/** What happens by itself: the earliest first, then what waits for something without a time. */
export function nextEvents({ probation, held, waitsUntil, daemon }: Sources): readonly NextEvent[] {
  const found: NextEvent[] = [];
  const { progress = null, decision = null } = probation ?? {};
  if (decision !== null) found.push({ what: `the operator's ${decision} is carried out`, at: null });
  if (progress?.confirmBy) found.push({ what: 'the release is rolled back unless confirmed', at: progress.confirmBy });
  else if (progress) found.push({ what: 'the release is confirmed if its probes pass', at: progress.ends });
  if (daemon?.draining?.until) found.push({ what: 'the drain ends', at: daemon.draining.until });
  if (waitsUntil !== null) found.push({ what: 'a newer release may be tried', at: waitsUntil });
  if (daemon?.waits)
    found.push({ what: `the release in the directory goes in when wave ${daemon.waits.wave} opens`, at: null });
  // A look that is over comes when the change in progress ends.
  if (daemon?.nextLook && !probation) {
    const what = held === null ? 'rules and bundle directory are looked at' : 'the rollback is tried again';
    found.push({ what, at: daemon.nextLook });
  }
  return found.toSorted((a, b) => compareText(a.at ?? '~', b.at ?? '~'));
}
