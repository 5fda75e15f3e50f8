import type { Log } from '@sluice/cli/log';
import type { Problem } from '@sluice/netfilter';
import type { EventSender, Notice } from '../../cluster/watch/events.ts';
import type { Quarantined } from '../../render/quarantine/quarantine.ts';
import type { Alarms } from './health.ts';
import type { Publication } from './publisher.ts';
import type { ReleaseDifferences } from './release-endpoints.ts';
import { logProblems } from './start.ts';

/** The directory and the server, for messages. */
interface ReportNames {
  readonly output: string;
  readonly server: string;
}

/** Reports the results of the loop: in the log, as alarms, and as Events. */
export class WatchReport {
  readonly #log: Log;
  readonly #alarms: Alarms;
  readonly #names: ReportNames;
  readonly #events: EventSender | undefined;
  readonly #quarantine = new QuarantineWatch();
  readonly #ignored = new IgnoredObjectsWatch();
  #hasLoggedStart = false;
  #lastDifferences = '';

  constructor(log: Log, alarms: Alarms, names: ReportNames, events: EventSender | undefined) {
    this.#log = log;
    this.#alarms = alarms;
    this.#names = names;
    this.#events = events;
  }

  published(publication: Publication): void {
    const { written, removed, about } = publication;
    this.#log.debug({ written: written.length, removed: removed.length, about }, 'published');
    this.#alarms.clear('NOT_READY');
    this.#alarms.clear('RENDER');
    if (publication.held) this.held(publication.held);
    else if (this.#alarms.clear('REMOVAL_HELD'))
      this.#log.info({ alarm: 'REMOVAL_HELD' }, 'no removal is held any more');
    if (!this.#hasLoggedStart) {
      const what = `${written.length} files written, ${removed.length} removed`;
      const { output, server } = this.#names;
      this.#log.info({}, `${output} is up to date with ${server}: ${what}; watching for changes`);
    }
    this.#hasLoggedStart = true;
    this.#reportQuarantine(publication);
    logProblems(this.#log, this.#ignored.now(publication));
  }

  #reportQuarantine(publication: Publication): void {
    for (const notice of this.#quarantine.now(publication)) {
      const { object, reason, message } = notice;
      if (reason === 'Quarantined') this.#log.warn({ object }, `quarantine: ${object}: ${message}`);
      else this.#log.info({ object }, `quarantine: ${object} is valid again`);
      this.#events?.add(notice);
    }
  }

  notPublished(problems: readonly Problem[]): void {
    // It is tried again every few seconds.
    if (this.#alarms.raise('RENDER', problems[0]?.message ?? 'rendering failed')) logProblems(this.#log, problems);
  }

  /** The cluster lacks most Services, and their files stay. */
  held({ message, hint }: Problem): void {
    this.#alarms.clear('NOT_READY');
    this.#alarms.clear('RENDER');
    if (this.#alarms.raise('REMOVAL_HELD', message)) this.#log.warn({ alarm: 'REMOVAL_HELD', hint }, message);
  }

  /** How the Services of the cluster differ from those of the release, when that changes. */
  differences({ name, ...lists }: ReleaseDifferences): void {
    const text = JSON.stringify([name, lists]);
    if (text === this.#lastDifferences) return;
    this.#lastDifferences = text;
    for (const [state, services] of Object.entries(lists))
      if (services.length > 0)
        this.#log.info({ services: services.slice(0, namedMax) }, `${name}: ${services.length} ${meanings[state]}`);
  }

  /** The directory is committed and pushed, or another process takes over. */
  committed(): void {
    this.#alarms.clear('COMMIT');
  }

  notCommitted(why: string): void {
    this.alarm('COMMIT', why);
  }

  say(text: string): void {
    this.#log.info({}, text);
  }

  /** Raises an alarm, and logs it when it or its reason is new. */
  alarm(name: string, why: string): void {
    if (this.#alarms.raise(name, why)) this.#log.warn({ alarm: name }, `${name}: ${why}`);
  }
}

/** How many Services an entry of the log names. */
const namedMax = 100;

const meanings: Readonly<Record<string, string>> = {
  unknown: 'Services of the cluster are not in the release, so they are not served',
  withdrawn: 'Services of the release are not in the cluster',
  differing: 'Services have other addresses, ports or policies in the cluster; those of the release are served',
};

/** Finds objects that enter or leave quarantine, each once. */
class QuarantineWatch {
  #inside = new Map<string, string>();

  /** Takes the current quarantine. @returns what changed, as Events on the objects */
  now({ quarantine }: { readonly quarantine: readonly Quarantined[] }): readonly Notice[] {
    const next = new Map(quarantine.map((item) => [item.object, wordsOf(item)]));
    const entered = [...next].filter(([object, message]) => this.#inside.get(object) !== message);
    const left = [...this.#inside.keys()].filter((object) => !next.has(object));
    this.#inside = next;
    return [
      ...entered.map(([object, message]) => ({ object, reason: 'Quarantined', message }) as const),
      ...left.map((object) => ({ object, reason: 'Released', message: releasedMessage }) as const),
    ];
  }
}

const releasedMessage = 'The object is valid and rendered again';

function wordsOf({ rules, reasons }: Quarantined): string {
  const kept = rules === 'none' ? 'it has no rules' : 'its last good rules are kept';
  return `${kept}: ${reasons.map(({ code, message }) => `${message} [${code}]`).join('; ')}`;
}

/** Finds newly ignored objects: each once, and again when it reappears. */
export class IgnoredObjectsWatch {
  #known: ReadonlySet<string | undefined> = new Set();

  /** Takes the ignored objects. @returns the new ones */
  now({ ignored }: { readonly ignored: readonly Problem[] }): readonly Problem[] {
    const found = ignored.filter(({ object }) => !this.#known.has(object));
    this.#known = new Set(ignored.map(({ object }) => object));
    return found;
  }
}
