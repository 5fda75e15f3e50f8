import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { parse } from 'yaml';
import { debianRoot } from '../nft/debian.ts';

/** The real Prometheus, of Debian 13, unpacked in `.cache`. */

const root = join(import.meta.dirname, '..', '..');

/** The path of a program of Debian's package; skips the test by name where it cannot be fetched. */
export function needPrometheus(context: TestContext, program: 'prometheus' | 'promtool'): string {
  const found = debianRoot('prometheus', ['prometheus']);
  if ('lack' in found) context.skip(found.lack);
  return join(found.root, 'usr', 'bin', program);
}

export const rulesFile = join(root, 'integrations', 'prometheus', 'rules.yaml');

/** An alert of `rules.yaml`. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Alert[] }[];
}

export const alerts: readonly Alert[] = (parse(readFileSync(rulesFile, 'utf8')) as RuleFile).groups.flatMap(
  ({ rules }) => rules,
);

/** How to run commands and programs where the scraped program is. */
export interface Place {
  readonly directory: string;
  readonly run: (command: readonly string[]) => Promise<string>;
  readonly start: (command: readonly string[]) => unknown;
}

const address = '127.0.0.1:9090';

/** A Prometheus that scrapes and evaluates each second. Alerts wait 3 s where they wait minutes. */
export class Prometheus {
  readonly #place: Place;
  readonly #at: string;

  private constructor(place: Place, at: string) {
    this.#place = place;
    this.#at = at;
  }

  /** @param targets by job; it runs until its place ends */
  static start(program: string, place: Place, targets: Readonly<Record<string, string>>, at = address): Prometheus {
    const folder = join(place.directory, 'prometheus');
    mkdirSync(folder, { recursive: true });
    const rules = readFileSync(rulesFile, 'utf8').replaceAll(/^( +)for: .*$/gm, '$1for: 3s');
    writeFileSync(join(folder, 'rules.yaml'), rules);
    const jobs = Object.entries(targets).map(
      ([job, target]) => `  - job_name: ${job}\n    static_configs: [{ targets: ["${target}"] }]\n`,
    );
    const config = `global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }\nrule_files: [${folder}/rules.yaml]\nscrape_configs:\n${jobs.join('')}`;
    writeFileSync(join(folder, 'prometheus.yaml'), config);
    place.start([
      program,
      `--config.file=${folder}/prometheus.yaml`,
      `--storage.tsdb.path=${folder}/data`,
      `--web.listen-address=${at}`,
    ]);
    return new Prometheus(place, at);
  }

  /** The series of an instant query; empty before Prometheus answers. */
  async query(expr: string): Promise<readonly Readonly<Record<string, string>>[]> {
    const url = `http://${this.#at}/api/v1/query`;
    const text = await this.#place
      .run(['curl', '-sf', '-m', '5', '--data-urlencode', `query=${expr}`, url])
      .catch(() => '');
    if (text === '') return [];
    const answer = JSON.parse(text) as Answer;
    if (answer.status !== 'success') throw new Error(`${expr}: ${answer.error}`);
    return answer.data.result.map(({ metric }) => metric);
  }

  /** The alerts that fire, or have fired since the start. */
  async fired(): Promise<readonly string[]> {
    const series = await this.query('last_over_time(ALERTS{alertstate="firing"}[1h])');
    return [...new Set(series.map(({ alertname }) => alertname ?? ''))].toSorted();
  }

  /** Whether the targets were scraped and the rules evaluated. */
  async isReady(): Promise<boolean> {
    return (await this.query('up == 1')).length > 0;
  }
}

interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data: { readonly result: readonly { readonly metric: Readonly<Record<string, string>> }[] };
}
