import { perObject } from '@sluice/netfilter';
import type { Node, Service } from '../model/model.ts';
import type { CompileContext } from './iptables.ts';

/** What all Services of a bundle are compiled with. A change of a node is another fleet. */
export interface ServiceFilesContext extends CompileContext {
  readonly nodes: ReadonlyMap<string, Node>;
}

/** Nodes by their names. */
export const nodesByName = perObject(
  (nodes: readonly Node[]): ReadonlyMap<string, Node> => new Map(nodes.map((node) => [node.name, node])),
);

/** The files of one Service, as path and text; none where it has no rules. */
export type ServiceFiles = (service: Service) => readonly (readonly [path: string, text: string])[];

/** Files of a profile that depend on a sum over its Services, so that one that comes or goes costs itself alone. */
export interface SummedFiles {
  /** Puts a Service into the sum. @param by -1: takes it out again */
  count(service: Service, by: 1 | -1): void;
  /** As path and text. */
  files(): readonly (readonly [path: string, text: string])[];
}
