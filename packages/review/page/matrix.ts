import type { PageNode, PageService } from '../src/emit/report/data.ts';
import { compareSeverity, type Severity } from '../src/report/severity.ts';

/** The cluster at a glance: namespaces, or the Services of one, by zones, or by all nodes, or those of one zone. */
export interface Matrix {
  /** Worst first, then by name. */
  readonly rows: readonly MatrixRow[];
  readonly columns: readonly MatrixColumn[];
  /** The greatest load of a cell. */
  readonly loadMax: number;
}

export interface MatrixColumn {
  readonly name: string;
  readonly endpoints: number;
  /** The share of all load, 0 to 1. */
  readonly share: number;
}

export interface MatrixRow {
  readonly name: string;
  readonly services: number;
  /** Frontends after the change that clients outside of the cluster can use: node ports, external and load-balancer addresses. */
  readonly outside: number;
  /** The worst severity of its Services; absent: nothing changes. */
  readonly severity?: Severity;
  /** One for each column. */
  readonly cells: readonly Cell[];
}

export interface Cell {
  /** After the change. */
  readonly endpoints: number;
  readonly come: number;
  readonly leave: number;
  /** The sum of the shares of its endpoints: connections, if each port of a Service has equally many. */
  readonly load: number;
}

/** What is looked into: the Services of a namespace, the nodes of a zone, or all nodes instead of zones. */
export interface Focus {
  readonly namespace?: string;
  readonly zone?: string;
  readonly byNode?: boolean;
}

/** The name of the column for endpoints without a node, and nodes without a zone. */
export const elsewhere = 'no zone';

/** Whether the columns are zones, and not nodes. */
export const hasZones = ({ zone, byNode = false }: Focus): boolean => zone === undefined && !byNode;

/** Counts endpoints, load and changes. */
export function matrixOf(services: Iterable<PageService>, nodes: readonly PageNode[], focus: Focus = {}): Matrix {
  const columnOf = nodes.map(({ name, zone }) => (hasZones(focus) ? zone || elsewhere : name));
  const isShown = nodes.map(({ zone }) => focus.zone === undefined || (zone || elsewhere) === focus.zone);
  const names = new Set(columnOf.filter((_, at) => isShown[at]));
  const rows = new Map<string, MutableRow>();
  for (const service of services) {
    const namespace = service.name.slice(0, service.name.indexOf('/'));
    if (focus.namespace !== undefined && namespace !== focus.namespace) continue;
    const name = focus.namespace === undefined ? namespace : service.name;
    const row: MutableRow = rows.get(name) ?? { services: 0, outside: 0, cells: new Map() };
    rows.set(name, row);
    row.services++;
    row.outside += service.frontends.filter(({ kind, fate }) => kind !== 'cluster' && fate !== 'removed').length;
    row.severity = worse(row.severity, service.severity);
    for (const { at, fate, after = 0 } of service.endpoints) {
      if (at === undefined ? focus.zone !== undefined && focus.zone !== elsewhere : !isShown[at]) continue;
      const column = at === undefined ? (focus.byNode ? 'no node' : elsewhere) : columnOf[at]!;
      names.add(column);
      const cell = row.cells.get(column) ?? { endpoints: 0, come: 0, leave: 0, load: 0 };
      row.cells.set(column, cell);
      if (fate !== 'removed') cell.endpoints++;
      if (fate === 'added') cell.come++;
      if (fate === 'removed') cell.leave++;
      cell.load += after;
    }
  }
  return finished(rows, [...names]);
}

interface MutableRow {
  services: number;
  outside: number;
  severity?: Severity | undefined;
  readonly cells: Map<string, { -readonly [K in keyof Cell]: Cell[K] }>;
}

const none: Cell = { endpoints: 0, come: 0, leave: 0, load: 0 };

function finished(rows: ReadonlyMap<string, MutableRow>, columns: readonly string[]): Matrix {
  const made = [...rows].map(
    ([name, { services, outside, severity, cells }]): MatrixRow => ({
      name,
      services,
      outside,
      ...(severity === undefined ? {} : { severity }),
      cells: columns.map((column) => cells.get(column) ?? none),
    }),
  );
  const loads = columns.map((_, at) => made.reduce((sum, { cells }) => sum + cells[at]!.load, 0));
  const all = loads.reduce((sum, load) => sum + load, 0);
  return {
    rows: made.toSorted((a, b) => rank(a, b) || (a.name < b.name ? -1 : 1)),
    columns: columns.map((name, at) => ({
      name,
      endpoints: made.reduce((sum, { cells }) => sum + cells[at]!.endpoints, 0),
      share: all === 0 ? 0 : loads[at]! / all,
    })),
    loadMax: made.reduce((most, { cells }) => cells.reduce((max, { load }) => Math.max(max, load), most), 0),
  };
}

function worse(a: Severity | undefined, b: Severity | undefined): Severity | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return compareSeverity(a, b) <= 0 ? a : b;
}

/** Rows that change first, the worst on top. */
function rank(a: MatrixRow, b: MatrixRow): number {
  if (a.severity === undefined || b.severity === undefined)
    return Number(a.severity === undefined) - Number(b.severity === undefined);
  return compareSeverity(a.severity, b.severity);
}
