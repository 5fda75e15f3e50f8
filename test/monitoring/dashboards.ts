import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '..', '..', 'integrations', 'grafana');

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

export const dashboards: Readonly<Record<string, Dashboard>> = Object.fromEntries(
  ['fleet', 'node'].map((name) => [name, JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Dashboard]),
);

/** Every query, with the variable of the node filled in. */
export const dashboardQueries = () =>
  Object.entries(dashboards).flatMap(([dashboard, { panels }]) =>
    panels.flatMap(({ title, targets }) =>
      targets.map(({ expr }) => ({ dashboard, panel: title, expr: expr.replaceAll('$instance', '.+') })),
    ),
  );
