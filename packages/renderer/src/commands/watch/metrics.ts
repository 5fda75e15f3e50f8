import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** The metrics of `sluice watch`. Their names are a public contract. */
export class Metrics {
  readonly registry = new Registry();
  readonly publications = this.#counter('sluice_watch_publications_total', 'Publications that changed the directory');
  readonly failures = this.#counter('sluice_watch_failures_total', 'Failed attempts to render or write');
  readonly pending = this.#gauge('sluice_watch_pending_changes', 'Changed objects that are not in the directory yet');
  readonly quarantined = this.#gauge(
    'sluice_watch_quarantined',
    'Objects that are left out or kept with their last good rules',
  );
  readonly unlikeRelease = this.#gauge(
    'sluice_watch_services_unlike_release',
    'Services that the cluster and the release of --release do not have alike, by how',
    'state',
  );
  readonly removalHeld = this.#gauge(
    'sluice_watch_removal_held',
    '1 while a change that takes away most Services or endpoints is held',
  );
  readonly away = this.#gauge(
    'sluice_watch_api_away',
    '1 while the API server is unreachable and the directory may be out of date',
  );
  readonly leading = this.#gauge('sluice_watch_leading', '1 while this process writes the bundle directory');
  readonly followers = this.#gauge('sluice_watch_followers', 'Nodes that follow the events of --serve');
  readonly lastPublication = this.#gauge(
    'sluice_watch_last_publication_timestamp_seconds',
    'Time of the last publication',
  );
  readonly files = this.#gauge('sluice_watch_files', 'Files of the bundle');
  readonly render = this.#histogram(
    'sluice_watch_render_duration_seconds',
    'Duration of rendering all files from the objects',
  );
  readonly write = this.#histogram('sluice_watch_write_duration_seconds', 'Duration of writing the directory');
  /** Like kube-proxy's `network_programming_duration_seconds`, up to the directory. */
  readonly programming = this.#histogram(
    'sluice_watch_network_programming_duration_seconds',
    'Time from the change of an endpoint, as recorded by its controller, to the complete directory',
  );

  #counter(name: string, help: string): Counter {
    return new Counter({ name, help, registers: [this.registry] });
  }

  #gauge(name: string, help: string, ...labelNames: readonly string[]): Gauge {
    return new Gauge({ name, help, labelNames: [...labelNames], registers: [this.registry] });
  }

  #histogram(name: string, help: string): Histogram {
    const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
    return new Histogram({ name, help, buckets, registers: [this.registry] });
  }
}
