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
