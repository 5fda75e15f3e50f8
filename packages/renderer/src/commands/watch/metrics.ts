import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** What `sluice watch` counts and measures. Names are public contract. */
export class Metrics {
  readonly registry = new Registry();
  readonly publications = this.#counter('sluice_watch_publications_total', 'Updates of the bundle directory');
  readonly failures = this.#counter(
    'sluice_watch_failures_total',
    'Updates that failed: nothing could be rendered or written',
  );
  readonly pending = this.#gauge(
    'sluice_watch_pending_changes',
    'Objects whose change is not in the bundle directory yet',
  );
  readonly quarantined = this.#gauge(
    'sluice_watch_quarantined',
    'Quarantined objects: left out, or kept at their last good rules',
  );
  readonly away = this.#gauge(
    'sluice_watch_api_away',
    '1 while the API server does not answer, so that the bundle directory is stale',
  );
  readonly leading = this.#gauge('sluice_watch_leading', '1 while this process writes the bundle directory');
  readonly lastPublication = this.#gauge(
    'sluice_watch_last_publication_timestamp_seconds',
    'When the bundle directory was last updated',
  );
  readonly files = this.#gauge('sluice_watch_files', 'Files of the bundle');
  readonly render = this.#histogram(
    'sluice_watch_render_duration_seconds',
    'From the objects to the texts of all files',
  );
  readonly write = this.#histogram('sluice_watch_write_duration_seconds', 'From the texts to the complete directory');
  /** As kube-proxy's `network_programming_duration_seconds`, up to the directory. */
  readonly programming = this.#histogram(
    'sluice_watch_network_programming_duration_seconds',
    'From the change of an endpoint, as its controller says, to the complete directory',
  );

  #counter(name: string, help: string): Counter {
    return new Counter({ name, help, registers: [this.registry] });
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name, help, registers: [this.registry] });
  }

  #histogram(name: string, help: string): Histogram {
    const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
    return new Histogram({ name, help, buckets, registers: [this.registry] });
  }
}
