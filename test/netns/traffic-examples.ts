import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterAll } from 'vitest';
import { type Example, listExamples, renderArguments } from '../../tools/examples.ts';
import type { ClusterSpec } from './cluster.ts';
import { clusterOf } from './traffic-cluster.ts';
import { type PacketTable, type Row, readPacketTable, type Verdict } from './traffic-table.ts';

/** Not bin/sluice, which requires the checkout's own Node: the emulated guest has another. */
const sluice = programPath('sluice');

/** An example with a table of packets. */
export interface TrafficExample {
  readonly name: string;
  /** Some node is in mode ipvs, which needs a kernel with IPVS: only traced here. */
  readonly inIpvs: boolean;
  readonly table: PacketTable;
  readonly spec: ClusterSpec;
  /** Renders the example, once. @returns the bundle's directory */
  readonly render: () => Promise<string>;
}

/** Every example with a `packets.yaml`. Call it once, outside all tests: the bundles are removed after the last one. */
export function trafficExamples(): readonly TrafficExample[] {
  // Created with the first bundle: a run that skips every test calls no hook that could remove it.
  let scratch: string | undefined;
  const bundleDir = (name: string): string => join((scratch ??= mkdtempSync(join(tmpdir(), 'sluice-traffic-'))), name);
  afterAll(() => {
    if (scratch !== undefined) rmSync(scratch, { recursive: true, force: true });
  });
  return listExamples().flatMap((example) => {
    if (example.packets === undefined) return [];
    const table = readPacketTable(example.packets);
    const spec = clusterOf(example.input, example.config, table);
    const inIpvs = example.config !== undefined && /^\s*mode: ipvs$/m.test(readFileSync(example.config, 'utf8'));
    return [{ name: example.name, inIpvs, table, spec, render: renderOnce(example, () => bundleDir(example.name)) }];
  });
}

function renderOnce(example: Example, bundleDir: () => string): () => Promise<string> {
  let rendered: Promise<string> | undefined;
  const render = async (): Promise<string> => {
    const bundle = bundleDir();
    await execa(process.execPath, [sluice, ...renderArguments(example, bundle)]);
    return bundle;
  };
  return () => (rendered ??= render());
}

/** One line per row with its result, so that a difference reads like the table itself. */
export function asLines(
  rows: readonly Row[],
  verdicts: (row: Row) => readonly Verdict[] = (row) => row.expect,
): readonly string[] {
  return rows.map((row) => {
    const { address, port, protocol } = row.to;
    return `${row.title}: ${row.from} → ${address}:${port}/${protocol}: ${verdicts(row).toSorted(compareText).join(' | ')}`;
  });
}
